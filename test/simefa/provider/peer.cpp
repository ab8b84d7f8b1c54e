#include "provider/peer.h"

#include <fcntl.h>
#include <rdma/fabric.h>
#include <unistd.h>

#include <algorithm>

#include "provider/mover.h"

namespace simefa {
namespace {

constexpr std::uint64_t peer_check_interval = 5'000'000;  // ns between two looks at whether the process lives

int status_of(Moved moved) noexcept {
    switch (moved) {
        case Moved::all:
            return status_ok;
        case Moved::bad_address:
            return status_bad_remote_address;
        case Moved::no_process:
            break;
    }
    return status_unresponsive;
}

}  // namespace

Peer::~Peer() {
    if (has_user_) {
        UserSlot& user = domain_->as<DomainRecord>().users[user_];
        user.active_key.store(0);
        user.owner.store(0);
    }
    if (bell_ >= 0) close(bell_);
}

bool Peer::claim_user() noexcept {
    DomainRecord& domain = domain_->as<DomainRecord>();
    // Most slots are free, so the first pass looks for these alone; asking whether a process lives is slow.
    for (const bool take_dead : {false, true}) {
        for (std::size_t i = 0; i < user_slots; ++i) {
            UserSlot& user = domain.users[i];
            ProcessIdentity owner = user.owner.load();
            if (owner != 0 && (!take_dead || is_alive(owner))) continue;
            if (!user.owner.compare_exchange_strong(owner, this_process())) continue;
            user.active_key.store(0);
            std::uint32_t end = domain.users_end.load();
            while (end <= i &&
                   !domain.users_end.compare_exchange_weak(end, static_cast<std::uint32_t>(i) + 1)) {
            }
            user_ = static_cast<std::uint16_t>(i);
            return has_user_ = true;
        }
    }
    return false;
}

bool Peer::connect() noexcept {
    try {
        Cluster& cluster = nic_.cluster();
        auto file = MappedFile::open(cluster.path(Cluster::endpoint_name(address_)), sizeof(EndpointRecord));
        if (!file) return false;
        EndpointRecord& record = file->as<EndpointRecord>();
        if (record.magic.load() != layout_magic || !(record.address == address_)) return false;
        domain_ = MappedFile::open(cluster.path(record.domain_file), sizeof(DomainRecord));
        vector_ = MappedFile::open(cluster.path(record.vector_file), sizeof(VectorRecord));
        if (!domain_ || !vector_ || !claim_user()) return false;
        bell_ = open(cluster.path(record.bell_file).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
        remote_nic_ = &cluster.table().slots[record.nic_slot % nic_slots];
        owner_ = record.owner.load();
        same_process_ = owner_ == this_process();
        target_ = same_process_ ? own_process : owner_;
        endpoint_ = std::move(file);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

int Peer::reach(std::uint64_t now) noexcept {
    if (!endpoint_ && !connect()) return status_bad_queue_pair;
    if (endpoint().state.load(std::memory_order_acquire) != EndpointState::open) return status_bad_queue_pair;
    if (same_process_) return status_ok;
    if (!dead_ && now >= next_check_) {
        dead_ = !is_alive(owner_);
        next_check_ = now + peer_check_interval;
    }
    return dead_ ? status_unresponsive : status_ok;
}

bool Peer::knows(std::uint64_t own_id) noexcept {
    VectorRecord& vector = vector_->as<VectorRecord>();
    const std::uint32_t generation = vector.generation.load();
    if (known_id_ == own_id && known_generation_ == generation) return true;
    const std::uint32_t size = std::min<std::uint32_t>(vector.size.load(), vector_slots);
    for (std::uint32_t i = 0; i < size; ++i) {
        if (vector.ids[i].load() != own_id) continue;
        known_id_ = own_id;
        known_generation_ = generation;
        return true;
    }
    return false;
}

int Peer::copy_region(Direction direction, const RegionAccess& remote, const Segment* local,
                      std::size_t count) noexcept {
    DomainRecord& domain = domain_->as<DomainRecord>();
    RegionSlot& region = domain.regions[remote.key % region_slots];
    std::atomic<std::uint32_t>& active = domain.users[user_].active_key;
    active.store(remote.key);
    int status = status_bad_remote_address;
    bool answers = true;
    if (remote.key != 0 && region.key.load() == remote.key && (region.access & remote.access) &&
        remote.address >= region.base && remote.length <= region.length &&
        remote.address - region.base <= region.length - remote.length) {
        const Segment there{region.alias + (remote.address - region.base), remote.length};
        auto move = [&](const Segment& part, const Segment* from, std::size_t number) {
            return direction == Direction::out ? copy_out(target_, &part, 1, from, number)
                                               : copy_in(target_, &part, 1, from, number);
        };
        Moved moved = Moved::all;
        if (region.access & access_out_of_reach) {
            moved = Moved::no_process;
            answers = false;
        } else if (remote.backwards && count == 1 && there.length > 1) {
            const std::uint64_t half = there.length / 2;
            const Segment last{local->address + half, local->length - half}, first{local->address, half};
            moved = move({there.address + half, there.length - half}, &last, 1);
            if (moved == Moved::all) moved = move({there.address, half}, &first, 1);
        } else if (there.length > 0) {
            moved = move(there, local, count);
        }
        status = status_of(moved);
    }
    active.store(0, std::memory_order_release);
    if (status == status_unresponsive && answers) dead_ = true;
    return status;
}

int Peer::copy_plain(const Segment* remote, std::size_t remote_count, const Segment* local,
                     std::size_t count) noexcept {
    const int status = status_of(copy_out(target_, remote, remote_count, local, count));
    if (status == status_unresponsive) dead_ = true;
    return status;
}

void Peer::ring_bell() noexcept {
    // Once for each time that somebody was told to sleep, as devices do.
    if (bell_ < 0 || endpoint().armed.load() == 0 || endpoint().armed.exchange(0) == 0) return;
    const char byte = 1;
    [[maybe_unused]] const ssize_t written = write(bell_, &byte, 1);  // full: the bell rings already
}

}  // namespace simefa
