// A peer's GPU memory on this host, as copies by our GPUs reach it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "manager/gpu_imports.h"

namespace railyard {

class GpuPath;
class RemoteShare;

using ImportPtr = std::shared_ptr<const GpuImports::Import>;

/// All of an engine that are mapped, by the instance of a peer that they are of. Nobody tells when the owner
/// frees its memory or ends, and what is mapped keeps it alive: the engine looks. Any thread.
class RemoteShares {
  public:
    [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
    /// Instances of which any is, in growing order. Throws std::bad_alloc.
    [[nodiscard]] std::vector<std::uint64_t> instances() const;
    /// Those of the instance whose word `is_there` denies are mapped for no further transfer, until somebody
    /// asks for them again. Adds what is to be dropped. May leave some to the next call; never waits for the
    /// driver. Throws std::bad_alloc.
    void let_go(std::uint64_t instance, const std::function<bool(std::uint64_t)>& is_there,
                std::vector<ImportPtr>& dropped);
    /// The same of all of them; adds also what transfers still have.
    void give_up(std::uint64_t instance, std::vector<ImportPtr>& all);

  private:
    friend class RemoteShare;
    void add(std::uint64_t instance, RemoteShare& share);
    void remove(std::uint64_t instance, const RemoteShare& share) noexcept;

    mutable Mutex mutex_;
    std::multimap<std::uint64_t, RemoteShare*> shares_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> count_{0};  ///< of shares_
};

/// Of one region: the allocation that it lies in, and our mappings of that, which last as long as this, as
/// long as transfers that were prepared with them, or until RemoteShares take them away. Any thread.
class RemoteShare {
  public:
    /// `instance`: whose it is. `word`: of its card, for this region.
    RemoteShare(std::shared_ptr<RemoteShares> all, std::uint64_t instance, std::uint64_t word,
                const cuda::SharedAllocation& allocation)
        : all_(std::move(all)), instance_(instance), word_(word), allocation_(allocation) {}
    ~RemoteShare();
    RemoteShare(const RemoteShare&) = delete;
    RemoteShare& operator=(const RemoteShare&) = delete;

    struct Mapped {
        std::uint64_t offset = 0;  ///< to be added to an address of the peer
        ImportPtr import;          ///< for as long as it is used; none in our own process
    };
    /// For copies of that GPU; nothing: it does not get there, which is found out once and logged (info, with
    /// `agent`). `own_process`: the peer is another agent of this process. May take the driver 100 us the
    /// first time. Throws std::bad_alloc.
    [[nodiscard]] std::optional<Mapped> map_for(GpuPath& gpu, bool own_process, const std::string& agent);

  private:
    friend class RemoteShares;
    struct Place {
        ImportPtr held;  ///< null: it does not get there, or nobody has asked since it was let go
        std::weak_ptr<const GpuImports::Import> latest;  ///< transfers may have it still
        bool tried = false;
    };
    void make_known();
    void let_go(std::vector<ImportPtr>& dropped, bool also_latest);

    const std::uint32_t process_ = fork_generation();
    const std::shared_ptr<RemoteShares> all_;
    const std::uint64_t instance_, word_;
    const cuda::SharedAllocation allocation_;
    Mutex mutex_;
    bool known_ ABSL_GUARDED_BY(mutex_) = false;  ///< by all_
    std::map<const GpuPath*, Place> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
