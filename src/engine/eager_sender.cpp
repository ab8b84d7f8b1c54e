#include "engine/eager_sender.h"

#include <algorithm>
#include <cstring>

#include "common/clock.h"
#include "engine/eager_message.h"
#include "engine/transfer.h"

namespace railyard {
namespace {

EagerLayout layout_of(const Transfer& transfer) {
    EagerLayout layout;
    for (const auto& region : transfer.remotes)
        layout.tokens.push_back(region->token);
    for (const Chunk& chunk : transfer.chunks)
        layout.pieces.push_back(
            {chunk.remote, chunk.length, static_cast<std::uint16_t>(chunk.remote_region)});
    return layout;
}

/// What belongs behind what has been received. As a NIC does, see eager_target.cpp.
[[gnu::noinline]] void put_in_place(EagerRound& round, std::string_view data) noexcept {
    round.received += static_cast<std::uint32_t>(data.size());
    while (!data.empty()) {
        const Chunk& chunk = round.transfer.chunks[round.chunk];
        const std::size_t length = std::min<std::size_t>(chunk.length - round.in_chunk, data.size());
        std::memcpy(reinterpret_cast<void*>(chunk.local + round.in_chunk), data.data(), length);
        data.remove_prefix(length);
        round.in_chunk += static_cast<std::uint32_t>(length);
        if (round.in_chunk == chunk.length) {
            ++round.chunk;
            round.in_chunk = 0;
        }
    }
}

/// True: that was the last of it.
bool take_in(EagerRound& round, std::uint32_t total, std::uint32_t offset, std::string_view data) noexcept {
    const Transfer& transfer = round.transfer;
    if (transfer.kind != Work::Kind::read || total != transfer.total_bytes || round.answered) return false;
    if (transfer.status() != Status::ok) return false;  // its memory may be the caller's again
    if (offset > round.received || offset + data.size() <= round.received) return false;  // it comes again
    data.remove_prefix(round.received - offset);
    put_in_place(round, data);
    return round.received == total;
}

}  // namespace

EagerRound::EagerRound(Transfer& owner) : transfer(owner), layout(encode(layout_of(owner))) {
    message.kind = owner.kind == Work::Kind::read ? MessageKind::eager_read : MessageKind::eager;
    message.is_answered = true;
    message.owner = &owner;
    message.retry = owner.notification.retry;
    message.peer = owner.notification.peer;
    if (size() <= EagerSender::own_buffer) message.message.reserve(size());
}

std::size_t EagerRound::size() const noexcept {
    // Two numbers, of which the second one is shorter in a WRITE; whether it notifies; room for a
    // notification.
    const std::size_t data = transfer.kind == Work::Kind::read ? 0 : transfer.total_bytes;
    const std::size_t text = std::max<std::size_t>(transfer.notification.message.size(), 64);
    return 2 * sizeof(std::uint64_t) + layout.size() + data + 1 + text;
}

EagerSender::EagerSender(Introducer& introducer) : introducer_(introducer) {
    const MutexLock lock(mutex_);
    buffers_.reserve(most_buffers);
}

bool EagerSender::has_room_for(EagerRound& round) noexcept {
    const std::size_t size = round.size();
    // What comes back is as long as what is asked for.
    round.bytes = std::max<std::size_t>(size, round.transfer.total_bytes);
    if (count_.load(std::memory_order_relaxed) >= most ||
        bytes_.load(std::memory_order_relaxed) + round.bytes > most_bytes)
        return false;
    std::string& buffer = round.message.message;
    if (size <= buffer.capacity()) return true;
    try {
        if (size > own_buffer) {
            const MutexLock lock(mutex_);
            if (!buffers_.empty()) {
                buffer = std::move(buffers_.back());
                buffers_.pop_back();
            }
        }
        buffer.reserve(size);
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void EagerSender::start(EagerRound& round) noexcept {
    const std::uint64_t now = now_ns();
    Ids ids;
    {
        const MutexLock lock(mutex_);
        round.id = round.transfer.peer->next_eager_id();  // here: no smaller one is added behind it
        round.pause = first_pause_ns;
        round.again_at = now + round.pause;
        round.stopped_at = 0;
        round.under_way = true;
        round.answered = false;
        round.received = round.chunk = round.in_chunk = 0;
        round.rail = nullptr;
        round.several_ways = round.message.restarted = false;
        round.previous = nullptr;
        round.next = first_;
        if (first_) first_->previous = &round;
        first_ = &round;
        count_.fetch_add(1, std::memory_order_relaxed);
        bytes_.fetch_add(round.bytes, std::memory_order_relaxed);
        ids = ids_of(round);
    }
    round.home = this;
    round.message.done = on_sent;
    send(round, ids);
}

EagerSender::Ids EagerSender::ids_of(const EagerRound& round) const noexcept {
    Ids ids{round.id, round.id};
    for (const EagerRound* other = first_; other; other = other->next) {
        if (other->transfer.peer->nonce() == round.transfer.peer->nonce())
            ids.done_below = std::min(ids.done_below, other->id);
    }
    return ids;
}

void EagerSender::send(EagerRound& round, Ids ids) noexcept {
    const Transfer& transfer = round.transfer;
    OutNotification& message = round.message;
    if (transfer.kind == Work::Kind::read) {
        begin_eager_read(message.message, ids.own, ids.done_below, round.layout);
    } else {
        begin_eager(message.message, ids.own, round.layout, transfer.total_bytes);
        for (const Chunk& chunk : transfer.chunks)
            message.message.append(reinterpret_cast<const char*>(chunk.local), chunk.length);
    }
    end_eager(message.message, transfer.has_notification, transfer.notification.message);
    const ControlRoute route = transfer.peer->control_route();
    round.several_ways = round.several_ways || message.restarted || (round.rail && round.rail != route.rail);
    round.rail = route.rail;
    round.sender = route.rail->sender_generation();
    message.path = route.path;
    message.attempts = 0;
    message.start(*transfer.own_agent, transfer.own_nonce, transfer.peer->next_message_id(), route.address,
                  transfer.peer->nonce(), transfer.own_inbox->auth());
    route.rail->send(message);
}

void EagerSender::on_sent(OutMessage& out, Status status) noexcept {
    auto& message = static_cast<OutNotification&>(out);
    auto& transfer = static_cast<Transfer&>(*message.owner);
    EagerRound& round = *transfer.eager;
    if (status != Status::ok && !round.home->is_answered(round)) {
        if (status == Status::remote_disconnect && message.wanted() == Status::ok &&
            message.retry->undelivered(message))
            return;
        transfer.stop(status);  // look() ends it
    }
    round.home->sent(round);
}

/// What fails then was only sent once more.
bool EagerSender::is_answered(const EagerRound& round) noexcept {
    const MutexLock lock(mutex_);
    return round.answered;
}

void EagerSender::sent(EagerRound& round) noexcept {
    {
        const MutexLock lock(mutex_);
        round.under_way = false;
        // It may have waited for its turn until another sender had taken over, and left from that one.
        round.several_ways = round.several_ways || round.rail->sender_generation() != round.sender;
        if (!round.answered) return;
        unlink(round);
    }
    end(round, round.answer);
}

void EagerSender::end(EagerRound& round, Status status) noexcept {
    Transfer& transfer = round.transfer;
    if (status == Status::ok && transfer.has_notification)
        PeerTraffic::count(transfer.peer->traffic.notifications);
    transfer.part_done(status);
}

void EagerSender::unlink(EagerRound& round) noexcept {
    (round.previous ? round.previous->next : first_) = round.next;
    if (round.next) round.next->previous = round.previous;
    count_.fetch_sub(1, std::memory_order_relaxed);
    bytes_.fetch_sub(round.bytes, std::memory_order_relaxed);
    std::string& buffer = round.message.message;
    if (buffer.capacity() <= own_buffer) return;
    buffer.clear();
    if (buffers_.size() < most_buffers) buffers_.push_back(std::move(buffer));
    buffer = std::string();
}

EagerRound* EagerSender::heard(std::uint64_t nonce, std::uint64_t id) noexcept {
    const bool alone = first_ && !first_->next && first_->id == id;  // as with most who wait for each
    const std::uint64_t now = alone ? 0 : now_ns();
    const bool tells = !alone && (told_of_ != nonce || now - told_at_ >= first_pause_ns / 8);
    if (tells) {
        told_of_ = nonce;
        told_at_ = now;
    }
    EagerRound* found = nullptr;
    for (EagerRound* round = first_; round && (!found || tells); round = round->next) {
        if (round->transfer.peer->nonce() != nonce) continue;
        if (round->id == id) {
            found = round;
        } else if (tells) {
            round->others_heard_at = now;
        }
    }
    return found;
}

bool EagerSender::answered(EagerRound& round, Status status) noexcept {
    round.answered = true;
    round.answer = status;
    if (round.under_way) return false;
    unlink(round);
    return true;
}

void EagerSender::on_answer(std::uint64_t nonce, const Answer& answer) noexcept {
    EagerRound* round = nullptr;
    {
        const MutexLock lock(mutex_);
        round = heard(nonce, answer.id);
        if (!round) return;
        if (answer.status == Status::ok && round->transfer.kind == Work::Kind::read) return;  // without data
        if (!answered(*round, answer.status)) return;
    }
    end(*round, answer.status);
}

void EagerSender::on_data(std::uint64_t nonce, std::uint64_t id, std::uint32_t total, std::uint32_t offset,
                          std::string_view data) noexcept {
    EagerRound* round = nullptr;
    {
        const MutexLock lock(mutex_);
        round = heard(nonce, id);
        if (!round) return;
        const std::uint32_t before = round->received;
        const bool whole = take_in(*round, total, offset, data);
        if (!whole && round->received != before) round->again_at = now_ns() + round->pause;
        if (!whole || !answered(*round, Status::ok)) return;
    }
    end(*round, Status::ok);
}

/// Of a round that was stopped.
bool EagerSender::is_over(EagerRound& round, std::uint64_t now) noexcept {
    if (round.under_way) return false;
    if (round.transfer.kind == Work::Kind::read) return true;  // nothing of the answer is taken any more
    if (!round.stopped_at) {
        round.stopped_at = now;
        round.interrupted = false;
    }
    const bool one_way = !round.several_ways && !round.message.restarted;
    if (one_way && round.rail->sender_generation() != round.sender) return true;
    if (!round.interrupted && round.transfer.peer->state() == PeerState::gone) {
        round.interrupted = true;
        round.rail->request_renewal();
    }
    return now - round.stopped_at >= word_limit_ns;
}

/// Then the caller sends it. Not as soon as it has left, nor while its answer may only wait behind others.
bool EagerSender::may_ask_again(EagerRound& round, std::uint64_t now) noexcept {
    if (round.under_way) {
        round.again_at = now + round.pause;
        return false;
    }
    if (round.again_at > now) return false;
    const std::uint64_t latest = round.again_at - round.pause + longest_pause_ns;
    if (round.others_heard_at + round.pause > now && now < latest) return false;
    Path& path = *round.transfer.peer->control_route().path;
    if (round.pause > first_pause_ns && path.introduced()) {
        path.forget();
        introducer_.introduce_soon();
    }
    round.pause = std::min(2 * round.pause, longest_pause_ns);
    round.again_at = now + round.pause;
    round.under_way = true;
    return true;
}

void EagerSender::look() noexcept {
    while (true) {
        EagerRound* round = nullptr;
        Status status = Status::ok;
        Ids ids;
        {
            const MutexLock lock(mutex_);
            const std::uint64_t now = now_ns();  // not before another thread's that was here first
            for (round = first_; round; round = round->next) {
                status = round->transfer.status();
                if (status == Status::ok ? may_ask_again(*round, now) : is_over(*round, now)) break;
            }
            if (!round) return;
            ids = ids_of(*round);
            if (status != Status::ok) unlink(*round);
        }
        if (status != Status::ok) {
            end(*round, status);
        } else {
            send(*round, ids);
        }
    }
}

}  // namespace railyard
