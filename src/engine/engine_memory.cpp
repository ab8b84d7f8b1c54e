#include <algorithm>
#include <iterator>

#include "common/clock.h"
#include "common/log.h"
#include "common/spoken.h"
#include "engine/engine_impl.h"
#include "engine/pinned.h"

namespace railyard {
namespace {

/// What NICs write to it is not seen by the GPU before the driver is asked.
bool needs_flush(const Registration& region) {
    return region.gpu && !region.staged && region.length != 0 &&
           region.gpu->gpu().visibility() != cuda::Visibility::at_once;
}

/// Of all that a transfer was laid out by, and by rails that know it.
bool takes_the_place_of(const Registration& other, const Registration& old) {
    return !other.revoked.load(std::memory_order_acquire) && other.gpu == old.gpu &&
           other.device_id == old.device_id && other.staged == old.staged && other.rails == old.rails &&
           (other.writable || !old.writable) && covers(other.address, other.length, old.address, old.length);
}

/// Of those of the very same range, the one that was made last: its pages are those that the program has
/// there now.
std::shared_ptr<Registration> same_range_again(const Registrations& registrations, const Registration& old) {
    const auto [first, last] = registrations.equal_range(RangeOfMemory{old.address, old.length});
    const auto found = std::find_if(std::reverse_iterator(last), std::reverse_iterator(first),
                                    [&](const auto& other) { return takes_the_place_of(*other, old); });
    return found.base() == first ? nullptr : *found;
}

/// Of those that hold its range and more. One look through all registrations for all that have gone.
void find_larger(const Registrations& registrations, Replacements& others) {
    std::multimap<std::uint64_t, Replacements::value_type*> left;
    for (auto& each : others) {
        if (!each.second) left.emplace(each.first->address, &each);
    }
    if (left.empty()) return;
    for (const auto& other : registrations) {
        for (auto at = left.lower_bound(other->address);
             at != left.end() && covers(other->address, other->length, at->first, 0); ++at) {
            auto& [old, found] = *at->second;
            if ((!found || other->number > found->number) && takes_the_place_of(*other, *old)) found = other;
        }
    }
}

}  // namespace

std::shared_ptr<Registration> Engine::Impl::register_memory(std::uint64_t address, std::uint64_t length,
                                                            std::uint64_t device_id, MemoryType type) {
    std::shared_ptr<Registration> region = type == MemoryType::device
                                               ? rails_->register_device_memory(address, length, device_id)
                                               : rails_->register_memory(address, length, device_id);
    if (takes_eager(*region)) region->token = rails_->host() ? region->on_host.key : region->known_as;
    try {
        if (!region->gpu && region->token) eager_target_.add(region);
        const MutexLock lock(registrations_mutex_);
        region->number = ++last_registration_;
        if (region->gpu && region->token) tokens_.add(region);
        registrations_.insert(region);
        for (const std::uint16_t rail : region->rails)
            registered_bytes_[rail] += region->length;
    } catch (...) {
        eager_target_.remove(*region);
        rails_->deregister_memory(*region);
        const MutexLock lock(registrations_mutex_);
        tokens_.remove(*region);
        throw;
    }
    return region;
}

MemoryUse Engine::Impl::use_of(const Registration& region) const noexcept {
    // In this order: pins go once their transfer is in flight, and what is given up is counted before its
    // transfer ends.
    if (region.pins.load(std::memory_order_seq_cst) != 0) return MemoryUse::now;
    const MemoryUse use = transfers_.use_of(region);
    if (use != MemoryUse::none) return use;
    return region.given_up.load(std::memory_order_seq_cst) != 0 ? MemoryUse::for_long : MemoryUse::none;
}

bool Engine::Impl::is_overdue(const Registration& region) noexcept {
    const MutexLock lock(registrations_mutex_);
    return region.overdue;
}

void Engine::Impl::refuse_deregistration(Registration& region) {
    transfers_.waited_in_vain_for(region);
    {
        const MutexLock lock(registrations_mutex_);
        if (!std::exchange(region.overdue, true)) overdue_.fetch_add(1, std::memory_order_relaxed);
    }
    throw Error(Status::not_allowed,
                "memory has transfers in flight, or operations of such as were given up, that did not end "
                "within connect_timeout_ms (" +
                    std::to_string(config_.params.connect_timeout_ms) +
                    " ms): it is used for no other any more, and deregistered when they have ended; leave it "
                    "alone until this succeeds");
}

/// It stays revoked where it is refused: a host that forgets it then may free the memory, and one that asks
/// again has it deregistered, or finds that it was.
void Engine::Impl::deregister_memory(const std::shared_ptr<Registration>& region) {
    // New posts arm and then read the epoch; we mark the region, raise the epoch and then look for armed
    // transfers: a post either sees the mark or is seen here (see epoch_of_post).
    region->revoked.store(true, std::memory_order_seq_cst);
    registration_epoch_.fetch_add(1, std::memory_order_acq_rel);
    if (process_barriers_) process_barrier();
    const std::uint64_t limit = now_ns() + config_.params.connect_timeout_ms * 1'000'000;
    const bool again = is_overdue(*region);
    for (MemoryUse use = use_of(*region); use != MemoryUse::none; use = use_of(*region)) {
        if (now_ns() > limit || (!again && use == MemoryUse::for_long)) refuse_deregistration(*region);
        if (!progress()) sched_yield();
    }
    if (give_back(region)) return;
    while (!region->deregistered.load(std::memory_order_acquire))
        sched_yield();
}

bool Engine::Impl::give_back(const std::shared_ptr<Registration>& region) noexcept {
    {
        const MutexLock lock(registrations_mutex_);
        if (registrations_.erase(region) == 0) return false;
        for (const std::uint16_t rail : region->rails)
            registered_bytes_[rail] -= region->length;
        tokens_.remove(*region);
        if (region->overdue) overdue_.fetch_sub(1, std::memory_order_relaxed);
    }
    eager_target_.remove(*region);
    rails_->deregister_memory(*region);
    region->deregistered.store(true, std::memory_order_release);
    return true;
}

/// Before the rails go. What is under way may go on after them, and nobody waits for it any more.
void Engine::Impl::deregister_all() noexcept {
    transfers_.give_up_in_flight();
    const MutexLock lock(registrations_mutex_);
    for (const auto& region : registrations_) {
        region->revoked.store(true, std::memory_order_release);
        if (region->given_up.load(std::memory_order_relaxed) != 0) rails_->keep_memory(*region);
        rails_->deregister_memory(*region);
    }
}

void Engine::Impl::give_back_overdue() {
    if (overdue_.load(std::memory_order_relaxed) == 0) return;
    std::vector<std::shared_ptr<Registration>> overdue;
    {
        const MutexLock lock(registrations_mutex_);
        std::copy_if(registrations_.begin(), registrations_.end(), std::back_inserter(overdue),
                     [](const auto& region) { return region->overdue; });
    }
    for (const auto& region : overdue) {
        if (use_of(*region) != MemoryUse::none || !give_back(region)) continue;
        RAILYARD_LOG(info, agent().c_str(),
                     "%llu bytes whose deregistration was refused for transfers in flight are deregistered",
                     static_cast<unsigned long long>(region->length));
    }
}

std::string Engine::Impl::memory_metadata(const Registration& region) const {
    MemoryInfo info;
    info.nonce = nonce_;
    info.provider = rails_->provider();
    info.address = region.address;
    info.length = region.length;
    info.device_id = region.device_id;
    info.writable = region.writable;
    info.staged = region.staged;
    info.needs_flush = needs_flush(region);
    if (!region.gpu) {
        info.eager = region.token != 0;
        info.token = info.eager ? region.token : region.on_host.key;
    } else if (info.staged || info.needs_flush || region.shared) {
        info.token = region.token;
    }
    info.shared = region.shared;
    info.rails = region.rails;
    info.keys = region.described_as_first ? region.first->keys : region.own_keys();
    return encode(info);
}

std::shared_ptr<RemoteRegion> Engine::Impl::load_remote_memory(const std::string& agent,
                                                               std::string_view metadata,
                                                               std::uint64_t address, std::uint64_t length) {
    const std::shared_ptr<Peer> peer = require_peer(agent);
    MemoryInfo info = decode_memory(metadata);
    if (info.provider != rails_->provider()) {
        throw Error(Status::mismatch, "memory metadata of agent \"" + agent + "\" is for provider " +
                                          spoken_provider(info.provider) + ", ours is " +
                                          spoken_provider(rails_->provider()) +
                                          ": set the same provider on both sides");
    }
    if (info.nonce != peer->nonce()) {
        throw Error(Status::remote_disconnect,
                    "memory metadata of agent \"" + agent +
                        "\" belongs to another instance of it: load its current metadata");
    }
    if (!covers(info.address, info.length, address, length)) {
        throw Error(Status::mismatch,
                    "memory metadata of agent \"" + agent + "\" does not cover the described range");
    }
    if (!info.rails.empty() && info.rails.back() >= peer->rail_count()) {
        throw Error(Status::mismatch, "memory metadata of agent \"" + agent + "\" has a key for rail " +
                                          std::to_string(info.rails.back()) + ", its connection info names " +
                                          counted(peer->rail_count(), "rail"));
    }
    auto region = std::make_shared<RemoteRegion>();
    region->agent = agent;
    region->nonce = info.nonce;
    region->address = info.address;
    region->length = info.length;
    region->device_id = info.device_id;
    region->writable = info.writable;
    region->staged = info.staged;
    region->needs_flush = info.needs_flush;
    region->eager = info.eager;
    region->token = info.token;
    if (info.shared) region->share = mapped_memory_.share(*peer, info.token, *info.shared);
    region->rails = std::move(info.rails);
    region->keys = std::move(info.keys);
    return region;
}

void Engine::Impl::find_others(Replacements& others, Pinned& pinned) {
    const MutexLock lock(registrations_mutex_);
    for (auto& [old, found] : others)
        found = same_range_again(registrations_, *old);
    find_larger(registrations_, others);
    for (const auto& [old, found] : others) {
        if (!found) throw_unregistered();
        pinned.add(found);
    }
}

bool Engine::Impl::use_other_registrations(Transfer& transfer) noexcept {
    if (transfer.of_peer) return false;
    try {
        const auto gone = [](const Registration& region) {
            return region.revoked.load(std::memory_order_acquire);
        };
        Replacements others;
        for (const auto& local : transfer.locals) {
            if (gone(*local)) others.try_emplace(local.get());
        }
        for (const auto& remote : transfer.remotes) {
            if (remote->self && gone(*remote->self)) others.try_emplace(remote->self.get());
        }
        Pinned pinned;
        find_others(others, pinned);
        auto locals = transfer.locals;
        for (auto& local : locals) {
            if (const auto other = others.find(local.get()); other != others.end()) local = other->second;
        }
        auto remotes = transfer.remotes;
        for (auto& remote : remotes) {
            const auto other = others.find(remote->self.get());
            if (other != others.end()) remote = local_as_remote(other->second);
        }
        lay_out_anew(transfer, locals);
        transfers_.change_memories([&] {
            transfer.locals.swap(locals);
            transfer.remotes.swap(remotes);
        });
    } catch (const std::exception&) {
        return false;  // there is no other one, or it is going, too, or there is no memory
    }
    RAILYARD_LOG(debug, agent().c_str(),
                 "memory of a transfer was deregistered, and is registered once more: it goes on with that");
    return true;
}

std::shared_ptr<RemoteRegion> Engine::Impl::local_as_remote(const std::shared_ptr<Registration>& local) {
    auto region = std::make_shared<RemoteRegion>();
    region->agent = config_.agent_name;
    region->nonce = nonce_;
    region->address = local->address;
    region->length = local->length;
    region->writable = local->writable;
    region->self = local;
    return region;
}

}  // namespace railyard
