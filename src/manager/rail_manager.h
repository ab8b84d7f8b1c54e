// All rails of one engine: opening them, registering memory over them, planning transfers.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fork_watch.h"
#include "common/params.h"
#include "common/random.h"
#include "manager/gpu_path.h"
#include "manager/known_ranges.h"
#include "manager/lane_plan.h"
#include "manager/rail_placement.h"
#include "manager/registration.h"
#include "manager/stripe.h"
#include "rail/host_rail.h"
#include "rail/local_rail.h"
#include "rail/rail.h"
#include "topology/rail_order.h"

namespace railyard {

namespace cuda {
struct Device;
struct PointerInfo;
}  // namespace cuda

namespace fabric {
struct Device;
}

class RailManager {
  public:
    /// Opens `rails_per_device` rails on every usable device, or as many as `rails` allows, on those that the
    /// topology prefers (topology::rail_order). A rail that fails is skipped with a warning
    /// while at least one opens; otherwise "auto" goes on to the next family, and Error{backend} is thrown
    /// where there is none. `blocking`: somebody will wait on the rails' file
    /// descriptors. `rdma_devices`: where the kernel lists them; empty for its usual place.
    RailManager(const Params& params, bool blocking, ControlSink& sink,
                std::filesystem::path rdma_devices = {});
    ~RailManager();

    /// False in a forked child: the rails are its parent's.
    [[nodiscard]] bool own_process() const noexcept { return generation_ == fork_generation(); }
    [[nodiscard]] std::size_t size() const noexcept { return rails_.size(); }
    [[nodiscard]] Rail& rail(std::size_t index) const noexcept { return *rails_[index]; }
    /// Carries transfers to ourselves.
    [[nodiscard]] Rail& local() noexcept { return local_; }
    /// Carries transfers to peers on this host; nullptr: local_rail is off.
    [[nodiscard]] Rail* host() const noexcept { return host_.get(); }
    /// It does so better than the fabric with a lane of so many bytes.
    [[nodiscard]] bool host_is_better(std::uint64_t bytes) const noexcept {
        return no_nics_ || bytes < rules_.threshold;
    }
    [[nodiscard]] const std::string& provider() const noexcept { return provider_; }
    /// Rails say so where an operation is refused for its key.
    [[nodiscard]] bool tell_of_refused_keys() const noexcept { return tell_of_refused_keys_; }
    /// Peers refuse operations of rails that they have not been told of (efa-direct).
    [[nodiscard]] bool needs_introduction() const noexcept { return needs_introduction_; }
    /// Rail::tells_of_writes of all of them.
    [[nodiscard]] bool tell_of_writes() const noexcept;
    /// Rails are to be told of peers' senders, for operations from there or for answers to it.
    [[nodiscard]] bool takes_senders() const noexcept { return takes_senders_; }
    /// Over connections (tcp): a process that has ended takes nothing any more, and nobody says why.
    [[nodiscard]] bool connects() const noexcept { return connects_; }
    /// Senders may have to wait before they are closed (ProviderCaps::waits_to_close).
    [[nodiscard]] bool waits_to_close() const noexcept { return waits_to_close_; }
    /// Grows whenever a rail replaces its sender or finds that a path has failed. Any thread.
    [[nodiscard]] std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }
    /// Raw addresses by rail index.
    [[nodiscard]] std::vector<std::string> addresses() const;

    [[nodiscard]] const Gpus& gpus() const noexcept { return gpus_; }
    [[nodiscard]] Gpus& gpus() noexcept { return gpus_; }

    /// On every rail that is to carry the memory or, throwing, on none.
    std::shared_ptr<Registration> register_memory(std::uint64_t address, std::uint64_t length,
                                                  std::uint64_t device_id);
    /// Memory of the GPU with that CUDA ordinal: on its rails, or staged where they do not reach it.
    std::shared_ptr<Registration> register_device_memory(std::uint64_t address, std::uint64_t length,
                                                         std::uint64_t ordinal);
    /// Before the rails go: operations of it may be under way (Rail::keep_memory).
    void keep_memory(const Registration& region) noexcept;
    void deregister_memory(Registration& region) noexcept;

    /// Whether device memory of any GPU can be registered, as far as is known before it is tried.
    [[nodiscard]] bool takes_gpu_memory() const noexcept;
    /// The rails of the GPUs that are in use: nothing outside the process wakes them. Any thread.
    [[nodiscard]] std::span<Rail* const> gpu_rails() const noexcept {
        return {gpu_rails_.data(), gpu_rails_open_.load(std::memory_order_acquire)};
    }

    /// Of GPUs that are in use, what copies within the process and to peers on this host.
    [[nodiscard]] std::vector<Rail*> copies() const;
    /// DeviceCopyRail::may_copy_for_the_ended of any of them.
    [[nodiscard]] bool may_copy_for_the_ended() const noexcept;

    /// Registers staging memory for the peers that are to be told of it, where that has not been done. Throws
    /// Error.
    void lend(StagingPath& path);
    /// Once more, with other keys, for those that are told of it from now on. Throws Error.
    void lend_anew(StagingPath& path) { path.lend(register_staging(path, path.memory()->rails)); }
    /// Whoever comes with the keys of memory that is not registered any more gets at none; over sockets
    /// (connects()) only what begins then.
    [[nodiscard]] bool withdraws_keys() const noexcept { return withdraws_keys_; }

    /// Every rail, shared out among threads (topology::group_rails).
    [[nodiscard]] std::vector<topology::RailGroup> groups(std::size_t threads) const {
        return placement_->groups(threads);
    }
    /// Every rail.
    [[nodiscard]] const RailSet& all() const noexcept { return all_; }
    /// What stripe() and plan_lanes() have to know of the rails.
    [[nodiscard]] const StripeRules& rules() const noexcept { return rules_; }
    /// All of ours with those of a peer.
    [[nodiscard]] std::vector<RailPair> pairs_with(const RailSet& remote) const {
        return pair_rails(all_, remote, rules_.pairing);
    }
    /// Those on which the peer reaches us, ours first: others, where one of us has more rails.
    [[nodiscard]] std::vector<RailPair> pairs_from(const RailSet& remote) const;

  private:
    void find_and_open(const Params& params, bool blocking, ControlSink& sink);
    void find_devices(const Params& params, std::string_view after);
    /// Calls `make(known)` with the range's lock held, whose registration it is to make.
    template <class Make>
    void register_as_known(Registration& region, const KnownRange::Place& place, Make&& make);
    /// What there is is shared, where other pages in the same place would be the same memory.
    RegisteredMemory register_on_host(const Registration& region, KnownRange& known)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(known.mutex);
    std::vector<RegisteredMemory> register_on_its_rails(const Registration& region, KnownRange& known)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(known.mutex);
    void describe(Registration& region, KnownRange& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(known.mutex);
    void give_back(Registration& region) noexcept;
    std::vector<std::size_t> order_of_opening(const Params& params, const topology::RailLimits& limits);
    std::vector<std::string> open(const Params& params, bool blocking, ControlSink& sink);
    void open_host_rail(const fabric::Device& first);
    GpuPath& require_gpu(std::uint64_t ordinal) const;
    /// nothing, or why the rails of the GPU do not carry its memory
    std::optional<Obstacle> register_directly(Registration& region, const cuda::PointerInfo& memory,
                                              std::uint64_t wished_key);
    void stage(Registration& region, const Obstacle& obstacle);
    /// Those near it.
    [[nodiscard]] Obstacle why_none_reaches(const cuda::Device& gpu) const;
    /// Of a GPU a line for each kind of obstacle, and not for each region.
    void tell(GpuPath& path, const Obstacle& obstacle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(staging_mutex_);
    /// Tells peers on this host how their GPUs reach it, where they may.
    void share(Registration& region, const cuda::PointerInfo& memory, KnownRange& known)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(known.mutex);
    void open_copies(GpuPath& path);
    /// nullptr: there is none, or there is to be none.
    [[nodiscard]] std::shared_ptr<const cuda::CopyKernel> copy_kernel(GpuPath& path) const;
    void open_staging(StagingPath& path, GpuPath& of) ABSL_EXCLUSIVE_LOCKS_REQUIRED(staging_mutex_);
    [[nodiscard]] std::shared_ptr<Registration> register_staging(StagingPath& path,
                                                                 const RailSet& rails) const;
    void publish(Rail& rail) ABSL_EXCLUSIVE_LOCKS_REQUIRED(staging_mutex_);
    [[nodiscard]] std::vector<Rail*> rails_of(const RailSet& set) const;

    const std::uint32_t generation_ = fork_generation();  ///< of the process
    Gpus gpus_;
    const std::filesystem::path rdma_devices_;
    const std::string vram_staging_;
    const unsigned cuda_streams_;
    const bool copy_kernel_;
    KnownRanges known_ranges_;
    const bool always_as_first_;
    std::vector<std::unique_ptr<GpuPath>> gpu_paths_;  // outlive the rails, which may write to their buffers
    std::vector<Rail*> gpu_rails_;                     ///< room for all; those that are open come first
    std::atomic<std::size_t> gpu_rails_open_{0};
    Mutex staging_mutex_;
    StripeRules rules_;
    RailSet all_;
    std::string provider_;
    bool needs_introduction_ = false;
    bool takes_senders_ = false;
    bool connects_ = false;
    bool waits_to_close_ = false;
    bool withdraws_keys_ = false;
    bool tell_of_refused_keys_ = false;
    bool renews_keys_ = false;  ///< of peers that were refused, who are told the present ones
    bool no_nics_ = false;      ///< the fabric's bytes are moved by cores, too
    std::vector<std::shared_ptr<const fabric::Device>> devices_;
    std::optional<topology::Machine> machine_;  ///< until the rails are placed, where it was read before
    std::atomic<std::uint32_t> changes_{0};
    std::size_t control_rails_ = 0;  ///< the first ones, which carry messages alone: none or one
    std::vector<std::unique_ptr<Rail>> rails_;
    std::vector<const fabric::Device*> rail_devices_;  ///< by rail index
    std::unique_ptr<const RailPlacement> placement_;
    LocalRail local_;
    std::unique_ptr<HostRail> host_;
};

template <class Make>
void RailManager::register_as_known(Registration& region, const KnownRange::Place& place, Make&& make) {
    KnownRange& known = known_ranges_.enter(place);
    try {
        const MutexLock lock(known.mutex);
        if (known.names.number == 0) known.names.number = random_u64();
        region.known_as = known.names.number;
        make(known);
        try {
            describe(region, known);
        } catch (const std::bad_alloc&) {
            // It is described by its own keys.
        }
        known.add(region);
    } catch (...) {
        known_ranges_.leave(known);
        throw;
    }
    region.known = &known;
}

}  // namespace railyard
