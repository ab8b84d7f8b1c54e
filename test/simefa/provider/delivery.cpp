#include "provider/delivery.h"

#include <rdma/fabric.h>

#include <algorithm>

namespace simefa {
namespace {

constexpr std::uint64_t first_delay = 20'000;  // ns; real devices back off on a similar scale
constexpr std::uint64_t longest_delay = 500'000;
constexpr unsigned unlimited = 7;

int wait_for_answer(Operation& operation, const Nic& nic, std::uint64_t now) noexcept {
    if (now >= operation.posted_at + nic.timeout()) return status_unresponsive;
    operation.retry_delay = longest_delay;
    return no_answer_yet;
}

int wait_for_room(Operation& operation, Nic& nic) noexcept {
    nic.slot().count(Counter::not_ready);
    operation.retry_delay =
        operation.waited ? std::min(operation.retry_delay * 2, longest_delay) : first_delay;
    operation.waited = true;
    return no_answer_yet;
}

int receiver_not_ready(Operation& operation, const Sender& sender, Nic& nic, std::uint64_t now) noexcept {
    const int waits = wait_for_room(operation, nic);
    const std::uint64_t most = first_delay << sender.not_ready_limit;
    return sender.not_ready_limit < unlimited && now - operation.posted_at > most ? status_not_ready : waits;
}

/// Closing looks for claims after it has said `closed`; so we look for `closed` after the claim.
bool closed_meanwhile(const EndpointRecord& target) noexcept {
    return target.state.load() != EndpointState::open;
}

int put_notice(Operation& operation, const Sender& sender, Nic& nic) noexcept {
    EndpointRecord& target = operation.peer->endpoint();
    std::uint32_t ticket = 0;
    NoticeSlot* slot =
        claim(target.notices, notice_slots - 1, target.notice_head, operation.peer->user(), ticket);
    if (!slot) return wait_for_room(operation, nic);  // which is ours: it takes no receive buffer
    operation.peer->ring_bell();
    const bool closed = closed_meanwhile(target);
    slot->length = operation.length;
    slot->data = operation.data;
    slot->source = sender.id;
    fill(*slot, ticket, operation.peer->user());
    if (closed) return status_bad_queue_pair;
    operation.peer->remote_nic().count(Counter::notices);
    return status_ok;
}

/// A message, or the immediate data of a WRITE that takes a receive buffer.
int put_message(Operation& operation, const Sender& sender, Nic& nic, std::uint64_t now) noexcept {
    Peer& peer = *operation.peer;
    EndpointRecord& target = peer.endpoint();
    std::uint32_t ticket = 0;
    ReceiveSlot* slot = claim(target.receives, target.receive_mask, target.receive_head, peer.user(), ticket);
    if (!slot) return receiver_not_ready(operation, sender, nic, now);
    peer.ring_bell();
    const bool is_write = operation.kind == Operation::Kind::write;
    int status = closed_meanwhile(target) ? status_bad_queue_pair : status_ok;
    std::uint64_t room = 0;
    for (std::uint32_t i = 0; i < slot->segment_count; ++i)
        room += slot->segments[i].length;
    slot->flags = (operation.has_data ? receive_has_data : 0) | (is_write ? receive_is_write : 0);
    slot->length = operation.length;
    slot->data = operation.data;
    slot->source = sender.id;
    if (status == status_ok && !is_write) {
        if (operation.length > room) {
            slot->flags |= receive_truncated;
            slot->length = room;
            status = status_remote_length;
        } else if (operation.length > 0) {
            status = peer.copy_plain(slot->segments, slot->segment_count, operation.local,
                                     operation.segment_count);
        }
    }
    if (status != status_ok && status != status_remote_length) slot->flags |= receive_failed;
    fill(*slot, ticket, peer.user());
    if (status == status_ok) peer.remote_nic().count(is_write ? Counter::notices : Counter::received);
    return status;
}

int tell_target(Operation& operation, const Sender& sender, Nic& nic, std::uint64_t now) noexcept {
    const bool theirs = (operation.peer->endpoint().features.load() & feature_unsolicited) != 0;
    if (sender.unsolicited != theirs) return status_feature_mismatch;
    return sender.unsolicited ? put_notice(operation, sender, nic) : put_message(operation, sender, nic, now);
}

int move_region(Operation& operation, const Sender& sender, Nic& nic) noexcept {
    Peer& peer = *operation.peer;
    if (sender.direct && peer.endpoint().direct && !peer.knows(sender.id) &&
        !peer.remote_nic().get(Setting::accept_unknown))
        return status_unknown_peer;
    const bool write = operation.kind == Operation::Kind::write;
    const RegionAccess remote{operation.remote, operation.length, operation.key,
                              write ? FI_REMOTE_WRITE : FI_REMOTE_READ, nic.get(Setting::out_of_order) != 0};
    return operation.peer->copy_region(write ? Direction::out : Direction::in, remote, operation.local,
                                       operation.segment_count);
}

}  // namespace

int deliver(Operation& operation, const Sender& sender, Nic& nic, std::uint64_t now) noexcept {
    if (nic.get(Setting::gone)) return status_flushed;
    const int reached = operation.peer->reach(now);
    if (reached == status_unresponsive) return wait_for_answer(operation, nic, now);
    if (reached != status_ok) return reached;
    NicSlot& remote = operation.peer->remote_nic();
    if (nic.get(Setting::link_down) || remote.get(Setting::link_down) || remote.get(Setting::gone))
        return wait_for_answer(operation, nic, now);
    if (operation.kind == Operation::Kind::send) return put_message(operation, sender, nic, now);
    if (!operation.moved) {
        const int status = move_region(operation, sender, nic);
        if (status == status_unresponsive) return wait_for_answer(operation, nic, now);
        if (status != status_ok) return status;
        operation.moved = true;
    }
    return operation.has_data ? tell_target(operation, sender, nic, now) : status_ok;
}

}  // namespace simefa
