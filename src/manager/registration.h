// Memory known to the engine: ours on every rail, and what peers published.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "cuda/shared_memory.h"
#include "manager/remote_share.h"
#include "rail/rail.h"

namespace railyard {

/// True when [address, address + length) lies in [start, start + size). Wrapping ranges never do.
[[nodiscard]] constexpr bool covers(std::uint64_t start, std::uint64_t size, std::uint64_t address,
                                    std::uint64_t length) noexcept {
    return address >= start && address - start <= size && length <= size - (address - start);
}

/// Rail indices in growing order.
using RailSet = std::vector<std::uint16_t>;
/// 0 to count - 1.
[[nodiscard]] inline RailSet rail_range(std::size_t count) {
    RailSet rails(count);
    std::iota(rails.begin(), rails.end(), std::uint16_t{0});
    return rails;
}

/// Where `rail` stands in it; its size where it does not.
[[nodiscard]] inline std::size_t position(const RailSet& rails, std::uint16_t rail) noexcept {
    const auto at = std::lower_bound(rails.begin(), rails.end(), rail);
    return at != rails.end() && *at == rail ? static_cast<std::size_t>(at - rails.begin()) : rails.size();
}

class GpuPath;
class KeyInquiry;
struct KnownRange;

class Registration {
  public:
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device_id = 0;
    std::uint64_t number = 0;  ///< of the engine's registrations, from 1: a later one's is greater
    GpuPath* gpu = nullptr;    ///< whose memory it is; nullptr: host memory
    /// No rail reaches the GPU's memory: it goes through staging buffers, and `rails` is empty.
    bool staged = false;
    /// Of the GPU's virtual memory, which its owner may unmap while it is registered: a copy would be refused
    /// then, but a kernel would end the program's context.
    bool may_be_unmapped = false;
    KnownRange* known = nullptr;      ///< while it is registered with rails of peers
    Registration* earlier = nullptr;  ///< of the same range, which has its lock
    std::uint64_t known_as = 0;       ///< a random number, of this range
    /// By which peers name memory that its owner moves, or takes small transfers of in messages: known_as, or
    /// of memory that the host rail knows its key there.
    std::uint64_t token = 0;
    bool writable = true;                  ///< false: source of WRITEs and of peers' READs only
    RailSet rails;                         ///< that know the memory; none for zero length
    std::vector<RegisteredMemory> memory;  ///< in the order of `rails`
    /// In the order of `rails`. Throws std::bad_alloc.
    [[nodiscard]] std::vector<RemoteKey> own_keys() const {
        std::vector<RemoteKey> keys(memory.size());
        std::transform(memory.begin(), memory.end(), keys.begin(), [](const RegisteredMemory& each) {
            return RemoteKey{each.key, each.address_base};
        });
        return keys;
    }
    [[nodiscard]] KeyTable key_table() const { return {rails, own_keys()}; }
    RegisteredMemory on_host;  ///< with the host rail; key 0: it is not
    /// How the range was described first, where peers that come with those keys are told the present ones;
    /// nullptr: they are not.
    std::shared_ptr<const KeyTable> first;
    bool described_as_first = false;  ///< this one is, too
    /// How GPUs of other processes of this host reach it; where on_host has a key.
    std::optional<cuda::SharedAllocation> shared;
    std::atomic<bool> revoked{false};       ///< for good
    std::atomic<bool> deregistered{false};  ///< nothing of it is with a rail any more
    /// Transfers in flight have outlasted its deregistration. With the lock of the engine's registrations.
    bool overdue = false;
    /// A peer may be late with what it was asked to do with it: once this is deregistered, the range is known
    /// by something else.
    std::atomic<bool> known_no_more{false};
    /// Transfers of it that are being made, for us or for peers: it is not deregistered meanwhile.
    std::atomic<std::uint32_t> pins{0};
    /// Operations of it that were given up, and that libfabric may go on with (Work::keeps_memory).
    std::atomic<std::uint32_t> given_up{0};
};

/// Keys that the owner has told since, as the older ones were refused. Any thread.
struct RenewedKeys {
    Mutex mutex;
    std::atomic<bool> any{false};
    std::vector<RemoteKey> keys ABSL_GUARDED_BY(mutex);  ///< empty, or in the order of the region's rails
    std::shared_ptr<KeyInquiry> inquiry ABSL_GUARDED_BY(mutex);  ///< the latest
};

class RemoteRegion {
  public:
    std::string agent;
    std::uint64_t nonce = 0;  ///< instance of the agent that published it
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device_id = 0;  ///< as its owner counts
    bool writable = true;
    bool staged = false;                 ///< no rail reaches it: the peer itself has to move its bytes
    bool needs_flush = false;            ///< the peer has to act after a WRITE, before its GPU sees the data
    bool eager = false;                  ///< the peer takes small transfers in messages
    std::uint64_t token = 0;             ///< what the peer calls it; of host memory, see host_key()
    RailSet rails;                       ///< of the peer that know the memory; none for zero length
    std::vector<RemoteKey> keys;         ///< in the order of `rails`, as it was described
    std::shared_ptr<Registration> self;  ///< set when it is our own memory
    /// Of GPU memory that copies by a GPU of ours may reach, where the peer is on this host.
    std::unique_ptr<RemoteShare> share;
    RenewedKeys renewed;

    /// The present one; none where that rail does not know it.
    [[nodiscard]] RemoteKey key_on(std::uint16_t rail) {
        const std::size_t at = position(rails, rail);
        if (at == rails.size()) return {};
        if (!renewed.any.load(std::memory_order_acquire)) [[likely]]
            return keys[at];
        const MutexLock lock(renewed.mutex);
        return renewed.keys[at];
    }
    /// What its owner has told. Throws std::bad_alloc.
    void renew(const KeyTable& told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(renewed.mutex) {
        if (renewed.keys.empty()) renewed.keys = keys;
        for (std::size_t i = 0; i < told.rails.size(); ++i) {
            const std::size_t at = position(rails, told.rails[i]);
            if (at < rails.size()) renewed.keys[at] = told.keys[i];
        }
        renewed.any.store(true, std::memory_order_release);
    }

    /// The peer's host rail's key of it, which is host memory; 0: none.
    [[nodiscard]] std::uint64_t host_key() const noexcept {
        return staged || needs_flush || share ? 0 : token;
    }
};

}  // namespace railyard
