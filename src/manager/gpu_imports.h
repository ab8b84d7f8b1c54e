// GPU memory of other processes, mapped for one of our GPUs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <absl/base/thread_annotations.h>

#include "common/fork_watch.h"
#include "common/mutex.h"
#include "cuda/shared_memory.h"

namespace railyard {

/// Mappings of one GPU, each made once, however many regions lie in the allocation, and closed with the last
/// one of these, or with this. Any thread.
class GpuImports {
    struct Table;

  public:
    /// An allocation of another process. May outlive the imports, and is of no use then. A forked child, in
    /// which the driver does not work, leaves it open.
    class Import {
      public:
        Import(std::shared_ptr<Table> table, const cuda::SharedAllocation& allocation, std::uint64_t address)
            : table_(std::move(table)), allocation_(allocation), address_(address) {}
        ~Import();
        Import(const Import&) = delete;
        Import& operator=(const Import&) = delete;
        /// Closes it now, whoever else has it. No copy may be under way to it, nor any start.
        void close() const;
        /// Where the allocation starts.
        [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

      private:
        const std::shared_ptr<Table> table_;
        const cuda::SharedAllocation allocation_;
        const std::uint64_t address_;
        const std::uint32_t process_ = fork_generation();
    };

    GpuImports();
    /// Closes what is still open. No copy may be under way to it.
    ~GpuImports();
    GpuImports(const GpuImports&) = delete;
    GpuImports& operator=(const GpuImports&) = delete;

    /// Opens the allocation in `context`, which is the same at each call. nullptr, with the reason in `why`:
    /// it cannot be reached from this GPU. Throws std::bad_alloc.
    [[nodiscard]] std::shared_ptr<const Import> open(const cuda::ContextPtr& context,
                                                     const cuda::SharedAllocation& allocation,
                                                     std::string& why);

  private:
    struct Table {
        Mutex mutex;
        cuda::ContextPtr context ABSL_GUARDED_BY(mutex);  ///< null once there is nothing to be closed
        struct Entry {
            std::uint64_t address = 0;
            std::weak_ptr<const Import> import;
        };
        std::map<cuda::SharedAllocation, Entry> entries ABSL_GUARDED_BY(mutex);
    };
    const std::shared_ptr<Table> table_;
};

}  // namespace railyard
