// Small WRITEs and READs that are one message, with their notification (ADR 29, 31): which are, and what
// comes of peers.
#include <algorithm>

#include "engine/engine_impl.h"
#include "rail/answer_channel.h"

namespace railyard {
namespace {

/// Without a notification, so many pieces at least: a few operations, of several pieces each, are answered
/// sooner than a message.
constexpr std::size_t eager_pieces = 12;

/// A message is copied a few times on its way, and an operation is not: the more bytes there are in all, the
/// smaller the pieces must be, on the average.
constexpr bool small_enough(std::uint64_t bytes, std::size_t pieces) noexcept {
    constexpr std::uint64_t kib = 1024;
    return bytes <= 16 * kib || (bytes <= 64 * kib && bytes <= pieces * 2 * kib) || bytes <= pieces * kib;
}

}  // namespace

bool Engine::Impl::takes_eager(const Registration& region) const noexcept {
    return eager_limit() != 0 && !region.gpu && region.writable && region.length != 0;
}

/// All of it is host memory, whose owner takes messages and is reached over sockets: there its CPU moves the
/// bytes anyway. Where the kernel moves them, the notification is the only message as it is.
bool Engine::Impl::may_be_eager(const Transfer& transfer) const noexcept {
    if (!transfer.peer || transfer.total_bytes == 0) return false;
    if (transfer.total_bytes > eager_limit() || transfer.chunks.size() > max_eager_pieces) return false;
    if (!small_enough(transfer.total_bytes, transfer.chunks.size())) return false;
    const auto of_gpu = [](const auto& region) { return region->gpu != nullptr; };
    const auto takes = [](const auto& region) { return region->eager; };
    const auto by_kernel = [](const auto& range) { return range.host_first; };
    return transfer.remotes.size() <= max_eager_tokens &&
           std::all_of(transfer.remotes.begin(), transfer.remotes.end(), takes) &&
           std::none_of(transfer.locals.begin(), transfer.locals.end(), of_gpu) &&
           std::none_of(transfer.lane_routes.begin(), transfer.lane_routes.end(), by_kernel);
}

void Engine::Impl::make_eager(Transfer& transfer) {
    transfer.peer->require_introduction();
    transfer.eager = std::make_unique<EagerRound>(transfer);
}

bool Engine::Impl::fits_message(const Transfer& transfer) const noexcept {
    if (!transfer.may_be_eager || transfer.immediate || transfer.start_control) return false;
    if (!transfer.has_notification) return transfer.chunks.size() >= eager_pieces;
    return transfer.total_bytes + transfer.notification.message.size() <= eager_limit();
}

/// While the peer knows us, and few others are under way so.
bool Engine::Impl::goes_eagerly(Transfer& transfer) noexcept {
    if (!fits_message(transfer)) return false;
    if (!transfer.eager) {
        try {
            make_eager(transfer);
        } catch (...) {
            return false;
        }
        introduce_again(transfer.peer);
    }
    const Path& path = *transfer.peer->control_route().path;
    return path.introduced() && !path.failed() && eager_sender_.has_room_for(*transfer.eager);
}

void Engine::Impl::on_eager(const Letter& letter) {
    const std::shared_ptr<Peer> peer = require_instance(letter, "small transfer");
    std::unique_ptr<OwnMessage> message = spare_message(peer, MessageKind::eager_answer);
    message->retry = this;
    const bool read = letter.kind == MessageKind::eager_read;
    const auto [answer, again] =
        read ? eager_target_.give(letter.agent, letter.nonce, letter.text, message->message)
             : eager_target_.take(letter.agent, letter.nonce, letter.text);
    message->is_answered = !again;  // by what comes next, or the same again
    const bool brings_data = read && answer.status == Status::ok;
    if (brings_data) {
        message->kind = MessageKind::eager_data;
    } else {
        message->message = encode(answer);
    }
    if (!peer->has_control_route()) peer->resolve(control_pair);
    const ControlRoute route = peer->control_route();
    if (again && rails_->size() * peer->rail_count() > 1) {  // else the next answer may be lost there, too
        route.path->doubt();
        watch_soon();
    }
    const Peer::Asker asker = peer->asks_from();
    // What was served before may wait here for its turn yet: its refusal comes behind it.
    if (!again && message->message.size() <= AnswerChannel::longest_text && asker.rail == route.rail) {
        message->asker = asker.address;
        message->removals = asker.removals;
    }
    send_over(route, std::move(message), brings_data ? answer.id : 0);
}

void Engine::Impl::introduce_soon() noexcept {
    seen_changes_.store(rails_->changes() - 1, std::memory_order_relaxed);
    wake();
}

}  // namespace railyard
