#include "provider/region_table.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "provider/environment.h"
#include "provider/status.h"
#include "provider/user_wait.h"

namespace simefa {
namespace {

constexpr unsigned index_bits = 18;
constexpr std::uint32_t index_mask = (1U << index_bits) - 1;
constexpr std::uint32_t generations = 1U << (32 - index_bits);
static_assert(region_slots == index_mask + 1);

std::uint32_t next_serial() noexcept {
    static std::atomic<std::uint32_t> next{1};
    return next.fetch_add(1);
}

/// GPU memory that was left out when it was registered.
[[noreturn]] void go_through_null() noexcept {
    std::fprintf(stderr,
                 "simefa: an operation on GPU memory that is not registered, for want of peer-to-peer: the "
                 "real one goes through a null pointer\n");
    std::abort();
}

/// The real one keeps pointers to registrations in what it has queued.
[[noreturn]] void go_to_a_closed_region() noexcept {
    std::fprintf(
        stderr,
        "simefa: memory is deregistered of which fabric efa has operations queued: the real one goes "
        "on with what has been freed\n");
    std::abort();
}

bool contains(const RegionSlot& slot, const Segment& range) noexcept {
    return range.address >= slot.base && range.length <= slot.length &&
           range.address - slot.base <= slot.length - range.length;
}

}  // namespace

RegionTable::RegionTable(DomainRecord& record) : record_(record), serial_(next_serial()) {}

std::uint32_t RegionTable::add(const Region& region) {
    std::uint32_t index = 0;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else {
        if (slots_.size() == region_slots) return 0;
        index = static_cast<std::uint32_t>(slots_.size());
        // Where it starts differs between processes and domains, so that a stale key is unlikely to fit.
        const auto start = (this_process() ^ serial_ * 2654435761U ^ environment().seed) % (generations - 1);
        slots_.push_back({static_cast<std::uint16_t>(start), 0});
    }
    std::uint16_t& generation = slots_[index].generation;
    generation = static_cast<std::uint16_t>(generation % (generations - 1) + 1);
    RegionSlot& slot = record_.regions[index];
    slot.base = region.base;
    slot.length = region.length;
    slot.alias = region.alias;
    slot.access = region.access | (region.out_of_reach ? access_out_of_reach : 0);
    const std::uint32_t key = std::uint32_t{generation} << index_bits | index;
    slot.key.store(key);
    return key;
}

void RegionTable::remove(std::uint32_t key) noexcept {
    const std::uint32_t index = key & index_mask;
    if (slots_[index].held != 0) go_to_a_closed_region();
    record_.regions[index].key.store(0);
    const std::uint32_t end = record_.users_end.load();
    for (std::uint32_t i = 0; i < end; ++i) {
        const UserSlot& user = record_.users[i];
        UserWait wait;
        while (user.active_key.load() == key && wait.go_on(user.owner.load())) {
        }
    }
    free_.push_back(index);
}

std::uint32_t RegionTable::hold(const void* descriptor) noexcept {
    const auto word = reinterpret_cast<std::uint64_t>(descriptor);
    const auto key = static_cast<std::uint32_t>(word);
    if (word >> 32 != serial_ || key == 0) return 0;
    if (record_.regions[key & index_mask].key.load(std::memory_order_relaxed) != key) return 0;
    ++slots_[key & index_mask].held;
    return key;
}

void RegionTable::release(std::uint32_t key) noexcept {
    --slots_[key & index_mask].held;
}

void* RegionTable::descriptor(std::uint32_t key) const noexcept {
    return reinterpret_cast<void*>(std::uint64_t{serial_} << 32 | key);
}

int RegionTable::resolve(const void* descriptor, Segment& segment) const noexcept {
    const auto word = reinterpret_cast<std::uint64_t>(descriptor);
    const auto key = static_cast<std::uint32_t>(word);
    if (word >> 32 != serial_) return status_bad_local_key;
    if (key == 0) go_through_null();
    const RegionSlot& slot = record_.regions[key & index_mask];
    if (slot.key.load(std::memory_order_relaxed) != key || !contains(slot, segment))
        return status_bad_local_key;
    segment.address = slot.alias + (segment.address - slot.base);
    return slot.access & access_out_of_reach ? status_unresponsive : status_ok;
}

bool RegionTable::resolve_remote(std::uint32_t key, std::uint64_t access, const Segment& whole,
                                 Segment& part) const noexcept {
    const RegionSlot& slot = record_.regions[key & index_mask];
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != key || !(slot.access & access)) return false;
    if (!contains(slot, whole) || !contains(slot, part)) return false;
    part.address = slot.alias + (part.address - slot.base);
    return true;
}

}  // namespace simefa
