#include "engine/eager_writes.h"

#include <algorithm>

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

}  // namespace

EagerWrite::EagerWrite(Transfer& owner) : transfer(owner), layout(encode(layout_of(owner))) {
    message.kind = MessageKind::eager;
    message.is_answered = true;
    message.owner = &owner;
    message.retry = owner.notification.retry;
    message.peer = owner.notification.peer;
    // The id, the length of the data, whether it notifies, and room for a notification.
    message.message.reserve(sizeof(std::uint64_t) + layout.size() + sizeof(std::uint32_t) +
                            owner.total_bytes + 1 +
                            std::max<std::size_t>(owner.notification.message.size(), 64));
}

void EagerWrites::start(EagerWrite& write) noexcept {
    const std::uint64_t id = write.transfer.peer->next_eager_id(), now = now_ns();
    {
        const MutexLock lock(mutex_);
        write.id = id;
        write.pause = first_pause_ns;
        write.again_at = now + write.pause;
        write.stopped_at = 0;
        write.under_way = true;
        write.answered = false;
        write.previous = nullptr;
        write.next = first_;
        if (first_) first_->previous = &write;
        first_ = &write;
        count_.fetch_add(1, std::memory_order_relaxed);
    }
    write.home = this;
    write.message.done = on_sent;
    send(write, id);
}

void EagerWrites::send(EagerWrite& write, std::uint64_t id) noexcept {
    const Transfer& transfer = write.transfer;
    OutNotification& message = write.message;
    begin_eager(message.message, id, write.layout, transfer.total_bytes);
    for (const Chunk& chunk : transfer.chunks)
        message.message.append(reinterpret_cast<const char*>(chunk.local), chunk.length);
    message.message += static_cast<char>(transfer.has_notification);
    if (transfer.has_notification) message.message += transfer.notification.message;
    const ControlRoute route = transfer.peer->control_route();
    write.rail = route.rail;
    write.sender = route.rail->sender_generation();
    message.path = route.path;
    message.attempts = 0;
    message.start(*transfer.own_agent, transfer.own_nonce, transfer.peer->next_message_id(), route.address,
                  transfer.peer->nonce(), transfer.own_inbox->auth());
    route.rail->send(message);
}

void EagerWrites::on_sent(OutMessage& out, Status status) noexcept {
    auto& message = static_cast<OutNotification&>(out);
    auto& transfer = static_cast<Transfer&>(*message.owner);
    EagerWrite& write = *transfer.eager;
    if (status != Status::ok && !write.home->is_answered(write)) {
        if (status == Status::remote_disconnect && message.wanted() == Status::ok &&
            message.retry->undelivered(message))
            return;
        transfer.stop(status);  // look() ends it
    }
    write.home->sent(write);
}

/// What fails then was only sent once more.
bool EagerWrites::is_answered(const EagerWrite& write) noexcept {
    const MutexLock lock(mutex_);
    return write.answered;
}

void EagerWrites::sent(EagerWrite& write) noexcept {
    {
        const MutexLock lock(mutex_);
        write.under_way = false;
        if (!write.answered) return;
        unlink(write);
    }
    end(write, write.answer);
}

void EagerWrites::end(EagerWrite& write, Status status) noexcept {
    Transfer& transfer = write.transfer;
    if (status == Status::ok && transfer.has_notification)
        PeerTraffic::count(transfer.peer->traffic.notifications);
    transfer.part_done(status);
}

void EagerWrites::unlink(EagerWrite& write) noexcept {
    (write.previous ? write.previous->next : first_) = write.next;
    if (write.next) write.next->previous = write.previous;
    count_.fetch_sub(1, std::memory_order_relaxed);
}

void EagerWrites::on_answer(std::uint64_t nonce, const Answer& answer) noexcept {
    EagerWrite* write = nullptr;
    {
        const MutexLock lock(mutex_);
        write = first_;
        while (write && (write->id != answer.id || write->transfer.peer->nonce() != nonce))
            write = write->next;
        if (!write) return;
        write->answered = true;
        write->answer = answer.status;
        if (write->under_way) return;
        unlink(*write);
    }
    end(*write, answer.status);
}

/// Of a round that was stopped.
bool EagerWrites::is_over(EagerWrite& write, std::uint64_t now) noexcept {
    if (write.under_way) return false;
    if (!write.stopped_at) write.stopped_at = now;
    return write.rail->sender_generation() != write.sender || now - write.stopped_at >= word_limit_ns ||
           write.transfer.peer->state() == PeerState::gone;
}

/// Then the caller sends it.
bool EagerWrites::may_ask_again(EagerWrite& write, std::uint64_t now) noexcept {
    if (write.again_at > now || write.under_way) return false;
    Path& path = *write.transfer.peer->control_route().path;
    if (write.pause > first_pause_ns && path.introduced()) {
        path.forget();
        introducer_.introduce_soon();
    }
    write.pause = std::min(2 * write.pause, longest_pause_ns);
    write.again_at = now + write.pause;
    write.under_way = true;
    return true;
}

void EagerWrites::look() noexcept {
    const std::uint64_t now = now_ns();
    while (true) {
        EagerWrite* write = nullptr;
        Status status = Status::ok;
        std::uint64_t id = 0;
        {
            const MutexLock lock(mutex_);
            for (write = first_; write; write = write->next) {
                status = write->transfer.status();
                id = write->id;
                if (status == Status::ok ? may_ask_again(*write, now) : is_over(*write, now)) break;
            }
            if (!write) return;
            if (status != Status::ok) unlink(*write);
        }
        if (status != Status::ok) {
            end(*write, status);
        } else {
            send(*write, id);
        }
    }
}

}  // namespace railyard
