#include "engine/eager_target.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/log.h"
#include "common/occasional.h"
#include "common/status.h"

namespace railyard {
namespace {

/// What a list and a map take for one answer that is kept.
constexpr std::size_t kept_overhead = 160;

void require_kept(const NotificationRoom& room) {
    if (!room.is_kept())
        throw Error(Status::not_allowed, "too many notifications wait for the application to take them");
}

// These two do as a NIC does: what orders this against the application's own accesses passes through a
// socket, where ThreadSanitizer cannot follow (test/sanitizer/tsan.supp has their names).

[[gnu::noinline]] void put_in_place(const EagerMessage& message) noexcept {
    const char* from = message.data.data();
    for (const EagerPiece& piece : message.layout.pieces) {
        std::memcpy(reinterpret_cast<void*>(piece.address), from, piece.length);
        from += piece.length;
    }
}

[[gnu::noinline]] void read_in_place(const EagerLayout& layout, std::string& data) {
    data.resize(layout.total());
    char* to = data.data();
    for (const EagerPiece& piece : layout.pieces) {
        std::memcpy(to, reinterpret_cast<const void*>(piece.address), piece.length);
        to += piece.length;
    }
}

}  // namespace

void EagerTarget::add(const std::shared_ptr<Registration>& region) {
    const MutexLock lock(mutex_);
    by_token_.add(region);
}

void EagerTarget::remove(const Registration& region) noexcept {
    if (!region.token || region.gpu) return;
    const MutexLock lock(mutex_);
    by_token_.remove(region);
}

template <class Act>
EagerTarget::Given EagerTarget::answer(const char* what, const std::string& agent, const Key& key,
                                       const Act& act) {
    const auto refused = std::find_if(refusals_.begin(), refusals_.end(), [&](const Refusal& one) {
        return one.answer.id == key.second && one.nonce == key.first;
    });
    if (refused != refusals_.end()) return {refused->answer, true};
    const bool again = taken_.contains(key.first, key.second);
    const bool served = again && taken_.has_come(key.first, key.second).value_or(false);
    try {
        act();
        return {{key.second, Status::ok}, again};
    } catch (const Error& error) {
        if (!served && worth_a_line(++refused_))
            RAILYARD_LOG(warn, agent.c_str(), "a small %s was refused: %s (%llu so far)", what, error.what(),
                         static_cast<unsigned long long>(refused_));
        const Answer answer{key.second, error.status()};
        if (refusals_.size() == most_refusals) refusals_.pop_front();
        refusals_.push_back({key.first, answer});
        return {answer, again};
    }
}

EagerTarget::Given EagerTarget::take(const std::string& agent, std::uint64_t nonce, std::string_view bytes) {
    const EagerMessage message = decode_eager(bytes);
    const Key key{nonce, message.id};
    const MutexLock lock(mutex_);
    return answer("WRITE", agent, key, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (!was_taken(key)) put(agent, key, message);
    });
}

EagerTarget::Given EagerTarget::give(const std::string& agent, std::uint64_t nonce, std::string_view bytes,
                                     std::string& data) {
    const EagerRead message = decode_eager_read(bytes);
    const Key key{nonce, message.id};
    const MutexLock lock(mutex_);
    kept_.remove_between({nonce, 0}, {nonce, message.done_below});
    return answer("READ", agent, key,
                  [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { read(agent, key, message, data); });
}

/// Not where that is not known any more: its sender has left so many gaps that some were closed.
bool EagerTarget::was_taken(const Key& key) {
    const bool taken = taken_.contains(key.first, key.second);
    if (taken && !taken_.has_come(key.first, key.second))
        throw Error(Status::backend, "what became of it is not known any more");
    return taken;
}

void EagerTarget::put(const std::string& agent, const Key& key, const EagerMessage& message) {
    require_registered(message.layout);
    taken_.prepare(key.first);  // so that nothing fails behind the notification
    std::optional<NotificationRoom> room;
    if (message.notifies) require_kept(room.emplace(inbox_, agent, message.text));
    put_in_place(message);
    if (room) room->put(key.first);
    taken_.add(key.first, key.second);
}

void EagerTarget::read(const std::string& agent, const Key& key, const EagerRead& message,
                       std::string& data) {
    if (const std::string* const kept = kept_.look(key)) {
        data = *kept;
        return;
    }
    const bool taken = message.notifies ? was_taken(key) : taken_.contains(key.first, key.second);
    if (taken && message.notifies)
        throw Error(Status::backend,
                    "its notification has been delivered, and its data is not kept any more");
    require_registered(message.layout);
    if (!taken) taken_.prepare(key.first);
    read_in_place(message.layout, data);
    if (message.notifies) {
        keep(key, data);
        try {
            NotificationRoom room(inbox_, agent, message.text);
            require_kept(room);
            room.put(key.first);
        } catch (...) {
            kept_.remove(key);
            throw;
        }
    }
    if (!taken) taken_.add(key.first, key.second);  // of either kind: a gap among numbers costs memory
}

std::size_t EagerTarget::kept_bytes() const {
    const MutexLock lock(mutex_);
    return kept_.weight();
}

/// Nobody asks for what has to go for it, as a rule.
void EagerTarget::keep(const Key& key, const std::string& data) {
    static_cast<void>(kept_.add(key, data, kept_overhead + data.size()));
}

void EagerTarget::require_registered(const EagerLayout& layout) const {
    for (const EagerPiece& piece : layout.pieces) {
        const std::shared_ptr<Registration>* const region = by_token_.find(layout.tokens[piece.token]);
        if (!region) throw Error(Status::invalid_param, "it names memory that is not registered (any more)");
        if (!covers((*region)->address, (*region)->length, piece.address, piece.length))
            throw Error(Status::invalid_param, "it leaves the registered memory");
    }
}

}  // namespace railyard
