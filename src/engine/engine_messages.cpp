// Messages of the engine's own: made, sent, sent another way where their path has failed, and taken back.
#include "common/log.h"
#include "engine/engine_impl.h"

namespace railyard {
namespace {

/// Paths that one message is tried on.
constexpr std::uint32_t most_attempts = 8;
constexpr std::size_t longest_spare = std::size_t{64} << 10;  // of a spare one's text, which it keeps

}  // namespace

void Engine::Impl::send_own(const std::shared_ptr<Peer>& peer, MessageKind kind, std::string text) {
    free_sent_messages();
    queue_own(peer, kind, std::move(text));
}

void Engine::Impl::queue_own(const std::shared_ptr<Peer>& peer, MessageKind kind, std::string text,
                             std::uint64_t patience_ns) {
    std::unique_ptr<OwnMessage> message = own_message(peer, kind);
    message->retry = this;
    message->message = std::move(text);
    message->patience_ns = patience_ns;
    if (!peer->has_control_route()) peer->resolve(control_pair);
    send_over(peer->control_route(), std::move(message));
}

std::unique_ptr<Engine::Impl::OwnMessage> Engine::Impl::own_message(const std::shared_ptr<Peer>& peer,
                                                                    MessageKind kind) {
    auto message = std::make_unique<OwnMessage>();
    address_to(*message, peer, kind);
    return message;
}

std::unique_ptr<Engine::Impl::OwnMessage> Engine::Impl::spare_message(const std::shared_ptr<Peer>& peer,
                                                                      MessageKind kind) {
    std::unique_ptr<OwnMessage> message;
    {
        const MutexLock lock(spares_mutex_);
        if (!spares_.empty()) {
            message = std::move(spares_.back());
            spares_.pop_back();
        }
    }
    if (!message) return own_message(peer, kind);
    message->message.clear();
    message->retry = nullptr;
    message->attempts = 0;
    message->is_answered = false;
    message->asker = no_address;
    message->patience_ns = 0;
    address_to(*message, peer, kind);
    return message;
}

void Engine::Impl::address_to(OwnMessage& message, const std::shared_ptr<Peer>& peer, MessageKind kind) {
    message.keep = peer;
    message.peer = peer.get();
    message.engine = this;
    message.kind = kind;
    message.done = on_own_message;
}

void Engine::Impl::send_over(const ControlRoute& route, std::unique_ptr<OwnMessage> message,
                             std::uint64_t answers) noexcept {
    message->path = route.path;
    const bool ping = message->kind == MessageKind::ping;
    const std::uint64_t id = is_unnumbered(message->kind) ? answers : message->peer->next_message_id();
    message->start(config_.agent_name, nonce_, id, route.address, message->peer->nonce(), &auth_);
    if (!ping) messages_in_flight_.fetch_add(1, std::memory_order_relaxed);
    route.rail->send(*message.release());
    wake();
}

void Engine::Impl::on_own_message(OutMessage& out, Status status) noexcept {
    auto* message = static_cast<OwnMessage*>(static_cast<OutNotification*>(&out));
    const bool ping = message->kind == MessageKind::ping;
    bool news = false;  // for the watch, which finds it among the sent messages
    if (ping) {
        message->result = status;
        news = (status != Status::ok) != message->path->failed();
    } else if (status == Status::remote_disconnect && message->engine->undelivered(*message)) {
        return;
    } else if (status == Status::ok) {
        if (message->kind == MessageKind::notify) PeerTraffic::count(message->peer->traffic.notifications);
    } else {
        RAILYARD_LOG(warn, message->peer->agent().c_str(), "a %s of %zu bytes was not delivered: %s",
                     message->kind == MessageKind::notify ? "notification" : "control message",
                     message->message.size(), to_string(status));
    }
    Impl* engine = message->engine;
    engine->sent_messages_.push(*message);
    if (news) engine->watch_soon();
    if (!ping) engine->messages_in_flight_.fetch_sub(1, std::memory_order_release);
}

void Engine::Impl::free_sent_messages() noexcept {
    for (OutMessage* message = sent_messages_.take_all(); message;) {
        OutMessage* next = message->next;
        std::unique_ptr<OwnMessage> own(static_cast<OwnMessage*>(static_cast<OutNotification*>(message)));
        if (own->kind == MessageKind::ping) finish_ping(*own);
        if (is_unnumbered(own->kind)) keep_spare(std::move(own));
        message = next;
    }
}

void Engine::Impl::keep_spare(std::unique_ptr<OwnMessage> message) noexcept {
    message->keep = nullptr;
    if (message->message.capacity() > longest_spare) message->message = std::string();
    const MutexLock lock(spares_mutex_);
    if (spares_.size() < spares_.capacity()) spares_.push_back(std::move(message));
}

bool Engine::Impl::undelivered(OutNotification& message) noexcept {
    // What was lost on its question's connection says nothing about the other way.
    const bool elsewhere = std::exchange(message.asker, no_address) != no_address;
    if (!elsewhere && message.path->fail()) next_watch_.store(0, std::memory_order_relaxed);
    if (++message.attempts > most_attempts || message.peer->gone()) return false;
    undelivered_.push(message);
    wake();
    return true;
}

void Engine::Impl::send_undelivered() noexcept {
    for (OutMessage* next = undelivered_.take_all(); next;) {
        auto& message = static_cast<OutNotification&>(*next);
        next = message.next;
        bool another = false;
        try {
            another = message.peer->choose_control_route();
        } catch (const std::exception& error) {
            RAILYARD_LOG(warn, message.peer->agent().c_str(), "no other path: %s", error.what());
        }
        if (another) {
            const ControlRoute route = message.peer->control_route();
            message.path = route.path;
            message.restart(route.address);
            route.rail->send(message);
        } else {
            message.attempts = most_attempts;
            message.done(message, Status::remote_disconnect);
        }
    }
}

}  // namespace railyard
