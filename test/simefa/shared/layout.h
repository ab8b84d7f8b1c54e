// What lies in shared memory. Everything that two processes touch is a lock-free atomic; everything else is
// written before it is published and left alone until nobody reads it any more.
//
// One directory per simulated cluster (Cluster), in it:
//   nics            one NicSlot per (host, NIC): settings, counters, clocks
//   domain-*        one DomainRecord per open domain: registered memory, and who is using it
//   vector-*        one VectorRecord per address vector: whom its endpoints know
//   endpoint-*      one EndpointRecord per enabled endpoint: receive buffers, notices
//   bell-*          one FIFO per endpoint: wakes a process that sleeps on its completion queue
#pragma once

#include <atomic>
#include <cstdint>

#include "shared/claim_ring.h"
#include "shared/process_identity.h"
#include "shared/settings.h"

namespace simefa {

inline constexpr std::uint32_t layout_magic = 0x53454605;  // changes with the layout

inline constexpr std::size_t name_size = 64;
inline constexpr std::size_t nic_slots = 2048;
inline constexpr std::size_t user_slots = 8192;
inline constexpr std::size_t region_slots = 1 << 18;  // fi_domain_attr::mr_cnt
inline constexpr std::size_t vector_slots = 1 << 16;
inline constexpr std::size_t receive_slots = 8192;  // fi_rx_attr::size
inline constexpr std::size_t notice_slots = 4096;
inline constexpr std::size_t segment_limit = 4;  // fi_tx_attr::iov_limit

/// 32 bytes as fi_getname gives them.
struct Address {
    std::uint8_t gid[16];
    std::uint16_t queue_pair;
    std::uint16_t reserved;
    std::uint32_t connection;  ///< drawn for each endpoint, so that a later one is not taken for it
    std::uint64_t padding;

    bool operator==(const Address&) const = default;
    /// One word that stands for the address.
    [[nodiscard]] std::uint64_t id() const noexcept;
};
static_assert(sizeof(Address) == 32);

struct alignas(64) NicSlot {
    char host[name_size];
    char nic[name_size];
    std::atomic<std::uint32_t> used;   ///< names are valid
    std::atomic<std::uint32_t> epoch;  ///< counts changes of the settings
    std::atomic<std::uint32_t> next_queue_pair;
    std::atomic<std::uint64_t> settings[setting_count];
    alignas(64) std::atomic<std::uint64_t> counters[counter_count];
    alignas(64) std::atomic<std::uint64_t> tx_busy_until;  ///< CLOCK_MONOTONIC, ns
    alignas(64) std::atomic<std::uint64_t> rx_busy_until;

    [[nodiscard]] std::uint64_t get(Setting setting) const noexcept {
        return settings[static_cast<std::size_t>(setting)].load(std::memory_order_relaxed);
    }
    /// Of a setting auto/off/on whose auto is on.
    [[nodiscard]] bool on(Setting setting) const noexcept { return get(setting) != 1; }
    void count(Counter counter, std::uint64_t amount = 1) noexcept {
        counters[static_cast<std::size_t>(counter)].fetch_add(amount, std::memory_order_relaxed);
    }
    void uncount(Counter counter, std::uint64_t amount = 1) noexcept {
        counters[static_cast<std::size_t>(counter)].fetch_sub(amount, std::memory_order_relaxed);
    }
};

struct NicTableRecord {
    std::atomic<std::uint32_t> magic;
    NicSlot slots[nic_slots];
};

/// Somebody who reaches into a domain: an address vector entry of another endpoint.
struct alignas(64) UserSlot {
    std::atomic<ProcessIdentity> owner;
    /// Key of the region being copied to or from now, 0: none. Published before the region is looked at, so a
    /// deregistration that has invalidated the region and then sees no user's key knows that nobody copies.
    /// Both sides sequentially consistent.
    std::atomic<std::uint32_t> active_key;
};

/// Beside FI_READ and the like in RegionSlot::access: Region::out_of_reach.
inline constexpr std::uint64_t access_out_of_reach = std::uint64_t{1} << 63;

struct alignas(64) RegionSlot {
    std::atomic<std::uint32_t> key;  ///< 0: free; the rest is valid while this does not change
    std::uint64_t access;
    std::uint64_t base;
    std::uint64_t length;
    std::uint64_t
        alias;  ///< where the bytes of `base` can be reached in that process; equals base for host memory
};

struct DomainRecord {
    std::atomic<std::uint32_t> magic;
    std::atomic<ProcessIdentity> owner;
    std::atomic<std::uint32_t> users_end;  ///< slots from here on were never taken
    UserSlot users[user_slots];
    RegionSlot regions[region_slots];
};

struct VectorRecord {
    std::atomic<std::uint32_t> magic;
    std::atomic<ProcessIdentity> owner;
    std::atomic<std::uint32_t> generation;  ///< counts changes
    std::atomic<std::uint32_t> size;        ///< slots that were ever used
    std::atomic<std::uint64_t> ids[vector_slots];
};

struct Segment {
    std::uint64_t address;
    std::uint64_t length;
};

struct alignas(64) ReceiveSlot {
    std::atomic<std::uint64_t> state;
    std::uint32_t segment_count;
    std::uint32_t flags;  ///< of the message that filled it: receive_has_data
    Segment segments[segment_limit];
    std::uint64_t context;  ///< the owner's
    std::uint64_t length;   ///< bytes received
    std::uint64_t data;     ///< immediate
    std::uint64_t source;   ///< Address::id of the sender
};
inline constexpr std::uint32_t receive_has_data = 1;
inline constexpr std::uint32_t receive_is_write =
    2;  ///< immediate data of a WRITE that took a receive buffer
inline constexpr std::uint32_t receive_truncated = 4;  ///< the message did not fit: error 11 at both sides
inline constexpr std::uint32_t receive_failed = 8;     ///< nothing came: the buffer goes back

/// Immediate data of a WRITE that needs no receive buffer.
struct alignas(64) NoticeSlot {
    std::atomic<std::uint64_t> state;
    std::uint64_t length;
    std::uint64_t data;
    std::uint64_t source;
};

enum class EndpointState : std::uint32_t { unborn, open, closed };
inline constexpr std::uint32_t feature_read = 1, feature_write = 2, feature_unsolicited = 4;

/// Sleeping and closing follow one pattern. The sleeper sets `armed`, then looks at the rings; the sender
/// claims a slot, then looks at `armed`. The closer sets `closed`, then looks for claims; the sender claims,
/// then looks at `state`. All sequentially consistent, so one of the two sees the other. A sleeper does not
/// go to sleep on a claimed slot, so a sender that dies after its claim leaves it awake.
struct EndpointRecord {
    std::atomic<std::uint32_t> magic;
    std::atomic<ProcessIdentity> owner;
    Address address;
    std::uint32_t nic_slot;
    std::uint32_t direct;  ///< fabric efa-direct: demands that the initiator is known
    std::uint32_t receive_mask;
    std::atomic<std::uint32_t> features;
    char domain_file[name_size];
    char vector_file[name_size];
    char bell_file[name_size];
    alignas(64) std::atomic<EndpointState> state;
    std::atomic<std::uint32_t> armed;
    alignas(64) std::atomic<std::uint32_t> receive_head;  ///< hint, see claim()
    alignas(64) std::atomic<std::uint32_t> notice_head;
    ReceiveSlot receives[receive_slots];
    NoticeSlot notices[notice_slots];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace simefa
