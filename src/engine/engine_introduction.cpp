// Control messages that engines send each other for themselves.
#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/engine_impl.h"
#include "engine/introduction.h"

namespace railyard {
namespace {

/// There is an answer, which who asks waits for, and it is not asked again, or late.
constexpr bool waits_for_introduction(MessageKind kind) noexcept {
    return kind == MessageKind::request || kind == MessageKind::mark_asked || kind == MessageKind::keys_asked;
}

/// What is sent to one that another process has, too, in another container or on another host, never leaves
/// this process, and the provider may take our memory for the peer's.
void require_others_endpoints(const ConnectionInfo& info, const std::vector<std::string>& ours) {
    const auto is_ours = [&](const std::string& address) {
        return std::find(ours.begin(), ours.end(), address) != ours.end();
    };
    if (std::none_of(info.rails.begin(), info.rails.end(), is_ours)) return;
    throw Error(
        Status::mismatch,
        "agent \"" + info.agent +
            "\" says that it is reached where our own endpoints are: it has the same address as we, in "
            "another container, network namespace or host, where nothing gets from here; or it ended before "
            "we had it");
}

}  // namespace

void Engine::Impl::introduce(const std::shared_ptr<Peer>& peer) {
    try {
        std::vector<IntroducedPair> pairs = peer->take_unannounced(now_ns());
        if (pairs.empty()) return;
        send_own(peer, MessageKind::hello, encode(Introduction{own_connection_info(), std::move(pairs)}));
    } catch (...) {
        peer->announce_again();  // when a transfer to it is looked at next
        throw;
    }
}

void Engine::Impl::introduce_again(const std::shared_ptr<Peer>& peer) noexcept {
    try {
        introduce(peer);
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, peer->agent().c_str(), "could not be sent our addresses: %s", error.what());
    }
}

void Engine::Impl::handle_letters() noexcept {
    Letters letters;
    inbox_.take_letters(letters);
    handle_each(letters);
}

void Engine::Impl::handle_each(Letters& letters) noexcept {
    while (!letters.empty()) {
        Letters one;
        one.splice(one.begin(), letters, letters.begin());
        handle_or_refuse(one);
    }
}

/// What there is no memory for is read another time: its sender may wait for what comes of it, and does not
/// say it again.
void Engine::Impl::handle_or_refuse(Letters& one) noexcept {
    const Letter& letter = one.front();
    try {
        if (waits_for_introduction(letter.kind) && !known_instance(letter.agent, letter.nonce))
            return keep_until_introduced(one);
        handle(letter);
    } catch (const std::bad_alloc&) {
        RAILYARD_LOG(debug, letter.agent.c_str(), "no memory for what a control message wants: later");
        inbox_.put_back(std::move(one));
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, letter.agent.c_str(), "control message refused: %s", error.what());
    }
}

/// Its sender says who it is once more, when it gets no answer.
void Engine::Impl::keep_until_introduced(Letters& one) {
    const std::string agent = one.front().agent;
    const std::uint64_t nonce = one.front().nonce;
    RAILYARD_LOG(debug, agent.c_str(), "has not introduced itself: what it wants has to wait for that");
    waiting_letters_.keep(std::move(one), now_ns());
    if (known_instance(agent, nonce)) handle_waiting(nonce);  // another thread has read that meanwhile
}

void Engine::Impl::handle_waiting(std::uint64_t nonce) noexcept {
    Letters letters = waiting_letters_.take(nonce, now_ns());
    handle_each(letters);
}

void Engine::Impl::handle(const Letter& letter) {
    switch (letter.kind) {
        case MessageKind::hello:
            return on_hello(letter);
        case MessageKind::hello_ack:
            return on_acknowledgement(letter);
        case MessageKind::request:
            return on_request(letter);
        case MessageKind::answer:
            return on_answer(letter);
        case MessageKind::eager:
        case MessageKind::eager_read:
            return on_eager(letter);
        case MessageKind::number_wanted:
            return on_number_wanted(letter);
        case MessageKind::number:
            return on_number(letter);
        case MessageKind::mark_asked:
            return on_mark_asked(letter);
        case MessageKind::mark_answer:
            return on_mark_answer(letter);
        case MessageKind::credit:
            return on_credit(letter);
        case MessageKind::keys_asked:
            return on_keys_asked(letter);
        case MessageKind::keys:
            return on_keys(letter);
        case MessageKind::notify:
        case MessageKind::notify_early:
        case MessageKind::notify_early_several:
        case MessageKind::ping:
        case MessageKind::eager_answer:
        case MessageKind::eager_data:
            return;  // never a letter
    }
}

/// Runs without any rail's role: inserting addresses takes them.
void Engine::Impl::on_hello(const Letter& letter) {
    Introduction hello = decode_introduction(letter.text);
    if (hello.sender.agent != letter.agent || hello.sender.nonce != letter.nonce)
        throw Error(Status::mismatch, "introduction in another's name");
    if (hello.sender.provider != rails_->provider())
        throw Error(Status::mismatch, "introduction over provider " + hello.sender.provider);
    for (const IntroducedPair& introduced : hello.pairs) {
        if (introduced.pair.remote >= rails_->size())
            throw Error(Status::mismatch, "introduction to a rail we lack");
    }
    const std::shared_ptr<Peer> peer = introduced_peer(hello.sender);
    try {
        meet(*peer, hello.pairs);
    } catch (...) {
        weigh_stranger(*peer);  // with what it had named until then
        throw;
    }
    weigh_stranger(*peer);
    // Another thread may have loaded or disconnected it meanwhile, and goes on with another one.
    if (const std::shared_ptr<Peer> now = known_instance(letter.agent, letter.nonce); now && now != peer) {
        meet(*now, hello.pairs);
        weigh_stranger(*now);
    }
    RAILYARD_LOG(debug, letter.agent.c_str(), "introduced itself on %zu pairs of rails", hello.pairs.size());
    send_own(peer, MessageKind::hello_ack, encode_acknowledgement(letter.nonce, hello.pairs));
    inbox_.owe(letter.agent, letter.nonce);
    handle_waiting(letter.nonce);
}

void Engine::Impl::meet(Peer& peer, std::span<const IntroducedPair> pairs) {
    for (const IntroducedPair& introduced : pairs) {
        const RailPair ours_first{introduced.pair.remote, introduced.pair.local};
        if (introduced.sender.empty()) {
            peer.resolve(ours_first);
        } else if (rails_->takes_senders()) {
            peer.admit(ours_first, introduced.generation, introduced.sender);
        }
    }
}

std::shared_ptr<Peer> Engine::Impl::introduced_peer(const ConnectionInfo& info) {
    std::shared_ptr<Peer> loaded = peers_.find(info.agent);
    if (!loaded || loaded->nonce() != info.nonce) return stranger_of(info);
    if (!loaded->has_rails(info.rails))
        throw Error(Status::mismatch, "introduction with other rails than the instance has");
    return loaded;
}

std::shared_ptr<Peer> Engine::Impl::stranger_of(const ConnectionInfo& info) {
    std::vector<std::shared_ptr<Peer>> gone;  // as in forget_stranger
    const MutexLock lock(strangers_mutex_);
    if (const std::shared_ptr<Peer>* const known = strangers_.find(info.nonce)) {
        if ((*known)->agent() != info.agent)
            throw Error(Status::mismatch, "introduction with another agent's instance number");
        if (!(*known)->has_rails(info.rails))
            throw Error(Status::mismatch, "introduction with other rails than the instance's first");
        return *known;
    }
    auto stranger = std::make_shared<Peer>(info, rails_, message_counters_.of(info.nonce));
    gone = strangers_.add(info.nonce, stranger, stranger->weight());
    return stranger;
}

void Engine::Impl::weigh_stranger(const Peer& peer) {
    std::vector<std::shared_ptr<Peer>> gone;  // as in forget_stranger
    const MutexLock lock(strangers_mutex_);
    gone = strangers_.weigh(peer.nonce(), peer.weight());
}

std::shared_ptr<Peer> Engine::Impl::peer_of(const ConnectionInfo& info) {
    require_others_endpoints(info, rails_->addresses());
    const MutexLock lock(strangers_mutex_);
    const std::shared_ptr<Peer>* const known = strangers_.find(info.nonce);
    if (known && (*known)->agent() == info.agent && (*known)->has_rails(info.rails) &&
        (*known)->is_on_host_at(info.host))
        return *known;
    return std::make_shared<Peer>(info, rails_, message_counters_.of(info.nonce));
}

void Engine::Impl::forget_stranger(const Peer& old) {
    // Destroyed without the lock: it gives its addresses back to the rails.
    std::optional<std::shared_ptr<Peer>> gone;
    const MutexLock lock(strangers_mutex_);
    gone = strangers_.remove(old.nonce());
}

/// Before it is disconnected, so that it is known all the time.
std::shared_ptr<Peer> Engine::Impl::stranger_instead_of(const Peer& known) noexcept {
    if (!rails_->connects()) return nullptr;
    std::vector<std::shared_ptr<Peer>> gone;  // as in forget_stranger
    std::shared_ptr<Peer> stranger;
    try {
        stranger = known.anew();
        const std::size_t weight = stranger->weight();
        const MutexLock lock(strangers_mutex_);
        if (std::shared_ptr<Peer>* const there = strangers_.find(known.nonce())) {
            if (there->get() != &known && (*there)->is_same_instance(known)) return *there;
            gone.push_back(*there);
            *there = stranger;
        } else {
            gone = strangers_.add(known.nonce(), stranger, weight);
        }
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, known.agent().c_str(), "has to introduce itself again: %s", error.what());
        return nullptr;
    }
    return stranger;
}

void Engine::Impl::part_from(Peer& old, Peer* stranger) noexcept {
    if (!stranger) return forget_stranger(old);
    if (!stranger->is_same_instance(old)) return;  // another thread has loaded that in between
    stranger->take_senders(old);
    weigh_stranger(*stranger);
}

void Engine::Impl::end_being_stranger(Peer& known) noexcept {
    std::optional<std::shared_ptr<Peer>> stranger;
    {
        const MutexLock lock(strangers_mutex_);
        stranger = strangers_.remove(known.nonce());
    }
    if (stranger && (*stranger)->is_same_instance(known)) known.take_senders(**stranger);
}

void Engine::Impl::renew_stranger(const Peer& old) {
    std::shared_ptr<Peer> renewed = old.anew();  // then the old one, which is destroyed without the lock
    const MutexLock lock(strangers_mutex_);
    std::shared_ptr<Peer>* const known = strangers_.find(old.nonce());
    if (known && known->get() == &old) known->swap(renewed);
}

/// Who is loaded stops being a stranger under the lock, and is in the table by then; who is disconnected is
/// made one under it, and stays in the table until then. So both lists together miss nobody.
std::vector<std::shared_ptr<Peer>> Engine::Impl::all_peers() {
    std::vector<std::shared_ptr<Peer>> peers;
    const MutexLock lock(strangers_mutex_);
    peers_.list(peers);
    for (const auto& stranger : strangers_)
        peers.push_back(stranger.value);
    return peers;
}

/// What peers were told of our senders may be out of date.
void Engine::Impl::handle_rail_changes() noexcept {
    const std::uint32_t changes = rails_->changes();
    if (seen_changes_.exchange(changes, std::memory_order_relaxed) == changes) return;
    next_watch_.store(0, std::memory_order_relaxed);
    try {
        for (const std::shared_ptr<Peer>& peer : all_peers()) {
            // One that is gone is told when it is used again.
            if (peer->look_at_senders() && peer->state() != PeerState::gone) introduce_again(peer);
        }
    } catch (const std::bad_alloc&) {
        seen_changes_.store(changes - 1, std::memory_order_relaxed);  // next time
    }
}

void Engine::Impl::on_acknowledgement(const Letter& letter) {
    const Acknowledgement acknowledgement = decode_acknowledgement(letter.text);
    const std::shared_ptr<Peer> peer = known_instance(letter.agent, letter.nonce);
    if (!peer || acknowledgement.introduced_nonce != nonce_)
        throw Error(Status::mismatch, "acknowledgement of an introduction that is not ours");
    peer->introduced(acknowledgement.pairs);
}

}  // namespace railyard
