#include "engine/eager_target.h"

#include <algorithm>
#include <cstring>

#include "common/log.h"
#include "common/status.h"

namespace railyard {
namespace {

/// As a NIC does: what orders this against the application's own accesses passes through a socket, where
/// ThreadSanitizer cannot follow (test/sanitizer/tsan.supp has its name).
[[gnu::noinline]] void put_in_place(const EagerMessage& message) noexcept {
    const char* from = message.data.data();
    for (const EagerPiece& piece : message.layout.pieces) {
        std::memcpy(reinterpret_cast<void*>(piece.address), from, piece.length);
        from += piece.length;
    }
}

}  // namespace

void EagerTarget::add(const std::shared_ptr<Registration>& region) {
    const MutexLock lock(mutex_);
    by_token_.emplace(region->token, region);
}

void EagerTarget::remove(const Registration& region) noexcept {
    if (!region.token || region.gpu) return;
    const MutexLock lock(mutex_);
    by_token_.erase(region.token);
}

Answer EagerTarget::take(const std::string& agent, std::uint64_t nonce, std::string_view bytes) {
    const EagerMessage message = decode_eager(bytes);
    const MutexLock lock(mutex_);
    const auto refused = std::find_if(refusals_.begin(), refusals_.end(), [&](const Refusal& one) {
        return one.answer.id == message.id && one.nonce == nonce;
    });
    if (refused != refusals_.end()) return refused->answer;
    try {
        if (!taken_.contains(nonce, message.id)) put(agent, nonce, message);
        return {message.id, Status::ok};
    } catch (const Error& error) {
        RAILYARD_LOG(warn, agent.c_str(), "a small WRITE was refused: %s", error.what());
        const Answer answer{message.id, error.status()};
        if (refusals_.size() == most_refusals) refusals_.pop_front();
        refusals_.push_back({nonce, answer});
        return answer;
    }
}

void EagerTarget::put(const std::string& agent, std::uint64_t nonce, const EagerMessage& message) {
    for (const EagerPiece& piece : message.layout.pieces) {
        const Registration& region = memory_of(message.layout.tokens[piece.token]);
        if (!covers(region.address, region.length, piece.address, piece.length))
            throw Error(Status::invalid_param, "it leaves the registered memory");
    }
    put_in_place(message);
    if (message.notifies && !inbox_.put_from(nonce, agent, message.text))
        throw Error(Status::not_allowed, "too many notifications wait for the application to take them");
    taken_.add(nonce, message.id);
}

const Registration& EagerTarget::memory_of(std::uint64_t token) const {
    const auto found = by_token_.find(token);
    if (found == by_token_.end() || found->second->revoked.load(std::memory_order_acquire))
        throw Error(Status::invalid_param, "it names memory that is not registered (any more)");
    return *found->second;
}

}  // namespace railyard
