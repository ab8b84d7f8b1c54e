// A peer's GPU memory on this host, as copies by our GPUs reach it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "manager/gpu_imports.h"

namespace railyard {

class GpuPath;

/// Of one region: the allocation that it lies in, and our mappings of that, which last as long as this. Any
/// thread.
class RemoteShare {
  public:
    explicit RemoteShare(const cuda::SharedAllocation& allocation) : allocation_(allocation) {}

    /// What is to be added to an address of the peer for copies of that GPU; nothing: it does not get there,
    /// which is found out once and logged (info, with `agent`). `own_process`: the peer is another agent of
    /// this process. May take the driver 100 us the first time. Throws std::bad_alloc.
    [[nodiscard]] std::optional<std::uint64_t> offset_for(GpuPath& gpu, bool own_process,
                                                          const std::string& agent);

  private:
    const cuda::SharedAllocation allocation_;
    Mutex mutex_;
    /// By GPU; null: it does not get there.
    std::map<const GpuPath*, std::shared_ptr<const GpuImports::Import>> imports_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
