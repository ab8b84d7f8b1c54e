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

constexpr std::uint64_t withdrawal_limit_ns = 250'000'000;  // for the message, with a peer that takes nothing

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
    if (!asked) return served_.withdraw(peer->nonce(), decode_request(letter.text).tokens, now_ns());
    const std::uint64_t id = *asked;
    try {
        Request request = decode_request(letter.text);
        if (served_.was_withdrawn(peer->nonce(), id))
            throw Error(Status::canceled, "it was withdrawn before it came");
        if (request.kind == RequestKind::flush) {
            answer(peer, id, flush_for(request));
        } else {
            std::list<Served> served(1);
            served.front().peer = peer;
            served.front().id = id;
            served.front().transfer =
                serve(peer, std::move(request), served.front().late);  // nothing may throw from here on
            served_.add(served, now_ns());
        }
    } catch (const Error& error) {
        RAILYARD_LOG(warn, letter.agent.c_str(), "request refused: %s", error.what());
        answer(peer, id, error.status());
    }
    served_.forget_withdrawal(peer->nonce(), id);
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
    if (served_.none()) return false;
    ServedRequests::Look found = served_.look(*this, now_ns());
    if (found.withheld) {
        for (Rail* rail : rails_->gpu_rails())
            rail->progress();  // one that has nothing else to do has a slot to take back
    }
    std::erase_if(found.ended, [&](Served& served) { return tell_end(served); });
    if (found.ended.empty()) return found.under_way;
    served_.put_back(found.ended);
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
