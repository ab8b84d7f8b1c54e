// Closes what is mapped of other processes' GPU memory where nobody has to wait for it.
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "manager/remote_share.h"

namespace railyard {

/// The driver may wait for a GPU to be through with all that it has: so a thread closes them, which is there
/// while there is anything to close. Where there can be none, who hands them over does. Any thread.
class ImportCloser {
  public:
    ImportCloser() = default;
    /// Waits for the driver.
    ~ImportCloser();
    ImportCloser(const ImportCloser&) = delete;
    ImportCloser& operator=(const ImportCloser&) = delete;

    /// Lets go of them, and takes them out of the list.
    void drop(std::vector<ImportPtr>& imports) noexcept { hand_over({std::move(imports), false}); }
    /// Closes them, also those that others still have. The same.
    void close(std::vector<ImportPtr>& imports) noexcept { hand_over({std::move(imports), true}); }

  private:
    struct Batch {
        std::vector<ImportPtr> imports;
        bool for_everybody = false;
    };
    void hand_over(Batch batch) noexcept;
    [[nodiscard]] bool leave_to_thread(Batch& batch) noexcept;
    static void work_off(Batch& batch) noexcept;
    void run() noexcept;

    Mutex mutex_;
    std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);
    bool running_ ABSL_GUARDED_BY(mutex_) = false;
    std::thread thread_ ABSL_GUARDED_BY(mutex_);  ///< about to end where it is not running_
};

}  // namespace railyard
