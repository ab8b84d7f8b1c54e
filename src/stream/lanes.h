// The lanes of one engine: made with transfers, taken away when nobody uses them any more.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/thread_role.h"
#include "stream/armed_count.h"
#include "stream/lane.h"
#include "stream/lane_memory.h"

namespace railyard {

/// Needs nothing of the engine's once close() has been called: a thread whose call of the driver does not
/// come back keeps it beyond the engine's end.
class Lanes {
  public:
    explicit Lanes(const cuda::Driver& driver);
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    [[nodiscard]] ArmedCount& armed() noexcept { return armed_; }

    /// The stream's. Throws Error{backend}, and Error{not_allowed} after open().
    [[nodiscard]] std::shared_ptr<StreamLane> of(const StreamPlace& place)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(control);
    /// Appends what streams have come to. Without the driver, and without waiting for whoever calls it.
    void collect(StartList& list) noexcept;

    /// Asks the driver whether streams still live, then takes away what is not used. Any thread, but none
    /// that moves data where another one can do it: these calls may wait for the GPU, and that for the data.
    void look() noexcept;
    /// Takes lanes away that no transfer uses and no stream will write to. Asks the driver.
    void reap() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(control);

    /// Lets all streams pass, now and later; nothing is collected from here on. Without the driver.
    void open() noexcept;
    /// After open(). Waits up to 2 s for streams to be through with their words, and leaves the memory that
    /// others may write to allocated. Calls the driver.
    void close() noexcept;

    /// Held by whoever makes lanes or takes them away; the only one to change the list.
    ThreadRole control;

  private:
    using LanePtr = std::shared_ptr<StreamLane>;

    [[nodiscard]] LanePtr at(std::size_t index) const;
    LaneMemory& memory_of(Gpu& gpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control);

    const std::unique_ptr<const cuda::Driver> driver_;
    ArmedCount armed_;
    std::map<int, LaneMemory> memories_ ABSL_GUARDED_BY(control);  ///< by ordinal
    mutable Mutex mutex_;                                          // never held over a call of the driver
    bool opened_ ABSL_GUARDED_BY(mutex_) = false;
    std::vector<LanePtr> lanes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
