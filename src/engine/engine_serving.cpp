// What peers ask of us: to move the bytes of our GPU memory that their rails do not reach, and to let our
// GPUs see what they wrote.
#include <algorithm>
#include <list>
#include <new>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/engine_impl.h"
#include "engine/pinned.h"

namespace railyard {
namespace {

std::shared_ptr<RemoteRegion> asker_memory(const Peer& peer, KeyTable memory) {
    if (memory.rails.back() >= peer.rail_count())
        throw Error(Status::mismatch, "request names a rail that its sender does not have");
    auto region = std::make_shared<RemoteRegion>();
    region->agent = peer.agent();
    region->nonce = peer.nonce();
    region->rails = std::move(memory.rails);
    region->keys = std::move(memory.keys);
    return region;
}

/// What a withdrawn request is granted to end by itself; who withdrew it waits ForwardRail::word_limit_ns.
constexpr std::uint64_t withdrawal_patience_ns = 20'000'000;
constexpr std::uint64_t withdrawal_limit_ns = 250'000'000;  // for the message, with a peer that takes nothing
constexpr std::size_t most_early_withdrawals = 1024;

}  // namespace

void Engine::Impl::send_request(const std::shared_ptr<Peer>& peer, const Request& request) {
    queue_own(peer, MessageKind::request, encode(request),
              request.kind == RequestKind::withdraw ? withdrawal_limit_ns : 0);
}

std::shared_ptr<Peer> Engine::Impl::known_instance(const std::string& agent, std::uint64_t nonce) {
    std::shared_ptr<Peer> peer = peers_.find(agent);
    if (peer && peer->nonce() == nonce) return peer;
    {
        const MutexLock lock(strangers_mutex_);
        const std::shared_ptr<Peer>* const known = strangers_.find(nonce);
        if (known && (*known)->agent() == agent) return *known;
    }
    peer = peers_.find(agent);  // one that was loaded in between is a stranger no more
    return peer && peer->nonce() == nonce ? peer : nullptr;
}

std::shared_ptr<Peer> Engine::Impl::require_instance(const Letter& letter, const char* what) {
    std::shared_ptr<Peer> peer = known_instance(letter.agent, letter.nonce);
    if (!peer)
        throw Error(Status::mismatch, std::string(what) + " of an instance that has not introduced itself");
    return peer;
}

void Engine::Impl::on_request(const Letter& letter) {
    const std::shared_ptr<Peer> peer = require_instance(letter, "request");
    const std::optional<std::uint64_t> asked = request_id(letter.text);
    if (!asked) return withdraw(*peer, decode_request(letter.text).tokens);
    const std::uint64_t id = *asked;
    try {
        Request request = decode_request(letter.text);
        if (was_withdrawn(*peer, id)) throw Error(Status::canceled, "it was withdrawn before it came");
        if (request.kind == RequestKind::flush) {
            answer(peer, id, flush_for(request));
        } else {
            std::list<Served> served(1);
            served.front().peer = peer;
            served.front().id = id;
            served.front().transfer =
                serve(peer, std::move(request), served.front().late);  // nothing may throw from here on
            const MutexLock lock(served_mutex_);
            served_.splice(served_.end(), served);
            served_count_.store(served_.size(), std::memory_order_release);
            // Another thread may have read that meanwhile.
            if (is_among_withdrawals(peer->nonce(), id)) withdraw_served(peer->nonce(), id, now_ns());
        }
    } catch (const Error& error) {
        RAILYARD_LOG(warn, letter.agent.c_str(), "request refused: %s", error.what());
        answer(peer, id, error.status());
    }
    forget_withdrawal(*peer, id);
}

/// Messages have no order: what is not there (any more) may still come.
void Engine::Impl::withdraw(const Peer& peer, const std::vector<std::uint64_t>& ids) {
    const std::uint64_t now = now_ns();
    const MutexLock lock(served_mutex_);
    for (const std::uint64_t id : ids) {
        if (withdraw_served(peer.nonce(), id, now)) continue;
        if (early_withdrawals_.size() == most_early_withdrawals) early_withdrawals_.pop_front();
        early_withdrawals_.emplace_back(peer.nonce(), id);
    }
}

bool Engine::Impl::withdraw_served(std::uint64_t nonce, std::uint64_t id, std::uint64_t now) noexcept {
    const auto served = std::find_if(served_.begin(), served_.end(), [&](const Served& one) {
        return one.id == id && one.peer->nonce() == nonce;
    });
    if (served == served_.end()) return false;
    if (!served->transfer) return true;  // it has ended
    served->transfer->end_early(Status::canceled);
    served->interrupt_at = now + withdrawal_patience_ns;
    return true;
}

bool Engine::Impl::is_among_withdrawals(std::uint64_t nonce, std::uint64_t id) const noexcept {
    return std::find(early_withdrawals_.begin(), early_withdrawals_.end(), std::pair{nonce, id}) !=
           early_withdrawals_.end();
}

bool Engine::Impl::was_withdrawn(const Peer& peer, std::uint64_t id) noexcept {
    const MutexLock lock(served_mutex_);
    return is_among_withdrawals(peer.nonce(), id);
}

/// Once it has been answered: without memory for that it is looked at again.
void Engine::Impl::forget_withdrawal(const Peer& peer, std::uint64_t id) noexcept {
    const MutexLock lock(served_mutex_);
    std::erase(early_withdrawals_, std::pair{peer.nonce(), id});
}

std::shared_ptr<Registration> Engine::Impl::memory_of_token(std::uint64_t token) {
    const MutexLock lock(registrations_mutex_);
    const std::shared_ptr<Registration>* const found = tokens_.find(token);
    if (!found) throw_unregistered();
    return *found;
}

/// Each GPU once, whatever of its memory is named.
Status Engine::Impl::flush_for(const Request& request) {
    std::vector<std::shared_ptr<Registration>> regions;
    for (const std::uint64_t token : request.tokens) {
        std::shared_ptr<Registration> region = memory_of_token(token);
        const Gpu* const gpu = &region->gpu->gpu();
        const auto same = [&](const auto& other) { return &other->gpu->gpu() == gpu; };
        if (std::none_of(regions.begin(), regions.end(), same)) regions.push_back(std::move(region));
    }
    Status status = Status::ok;
    for (const auto& region : regions) {
        const Status flushed = region->gpu->gpu().flush();
        if (status == Status::ok) status = flushed;
    }
    return status;
}

/// Posts the transfer that answers a request; it is ours until finish_served().
Transfer* Engine::Impl::serve(const std::shared_ptr<Peer>& peer, Request request,
                              std::atomic<std::uint32_t>& late) {
    auto transfer = std::make_unique<Transfer>();
    // Before the first look, as in prepare().
    transfer->checked_epoch = registration_epoch_.load(std::memory_order_seq_cst);
    transfer->of_peer = true;
    transfer->aim_at(peer, tells());
    transfer->latencies = nullptr;  // the peer's transfer, which it measures
    transfer->kind = request.kind == RequestKind::read ? Work::Kind::write : Work::Kind::read;
    Pinned pinned;
    for (const std::uint64_t token : request.tokens) {
        transfer->locals.push_back(memory_of_token(token));
        pinned.add(transfer->locals.back());
    }
    for (KeyTable& memory : request.memories)
        transfer->remotes.push_back(asker_memory(*peer, std::move(memory)));
    std::vector<Piece> pieces;
    pieces.reserve(request.pieces.size());
    for (const RequestPiece& piece : request.pieces) {
        const Registration& region = *transfer->locals[piece.token];
        if (!covers(region.address, region.length, piece.theirs, piece.length))
            throw Error(Status::invalid_param, "it leaves the registered memory");
        pieces.push_back({piece.theirs, piece.ours, piece.length, piece.token, piece.memory});
    }
    lay_out(*transfer, pieces, true);
    for (Submission& submission : transfer->submissions)
        submission.late = &late;
    ready_notification(*transfer);
    introduce(peer);
    Transfer* const served = transfers_.add(std::move(transfer));
    const Status status = post(*served, nullptr);
    if (served->posted) return served;  // its end, whatever it is, is told by finish_served()
    transfers_.release(served);
    throw Error(status, "it could not be started");
}

bool Engine::Impl::finish_served() noexcept {
    if (served_count_.load(std::memory_order_acquire) == 0) return false;
    std::list<Served> over;
    bool any = false, withheld = false;
    {
        const MutexLock lock(served_mutex_);
        for (auto next = served_.begin(); next != served_.end();) {
            const auto served = next++;
            if (served->peer->unacquainted()) introduce_again(served->peer);
            const bool under_way = served->is_under_way();
            any = any || under_way;
            const bool late = !under_way && served->late.load(std::memory_order_acquire) != 0;
            withheld = withheld || late;
            if (!under_way && !late) {
                over.splice(over.end(), served_, served);
            } else if (under_way && served->interrupt_at != UINT64_MAX && now_ns() >= served->interrupt_at) {
                served->interrupt_at = UINT64_MAX;
                interrupt_transfer(*served->transfer);
            }
        }
        served_count_.store(served_.size(), std::memory_order_release);
    }
    if (withheld) {
        for (Rail* rail : rails_->gpu_rails())
            rail->progress();  // one that has nothing else to do has a slot to take back
    }
    std::erase_if(over, [&](Served& served) { return tell_end(served); });
    if (over.empty()) return any;
    const MutexLock lock(served_mutex_);
    served_.splice(served_.end(), over);
    served_count_.store(served_.size(), std::memory_order_release);
    return true;
}

/// False: there is no memory for it now.
bool Engine::Impl::tell_end(Served& served) noexcept {
    if (Transfer* const transfer = std::exchange(served.transfer, nullptr)) {
        served.status = transfer->status();
        transfers_.release(transfer);
    }
    try {
        answer(served.peer, served.id, served.status);
    } catch (const std::bad_alloc&) {
        return false;
    } catch (const std::exception& error) {
        RAILYARD_LOG(error, served.peer->agent().c_str(), "could not be answered: %s", error.what());
    }
    return true;
}

void Engine::Impl::answer(const std::shared_ptr<Peer>& peer, std::uint64_t id, Status status) {
    queue_own(peer, MessageKind::answer, encode(Answer{id, status}));
}

void Engine::Impl::on_answer(const Letter& letter) {
    forward_.answered(letter.nonce, decode_answer(letter.text));
    if (!forward_.has_work()) forward_.progress();  // a late one
}

}  // namespace railyard
