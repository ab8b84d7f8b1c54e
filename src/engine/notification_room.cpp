#include "engine/notification_room.h"

#include <iterator>
#include <utility>

#include "common/clock.h"

namespace railyard {
namespace {

/// Unfinished messages of which nothing comes for so long are dropped. Looking for them takes a while when
/// there are many, and is done so often at most: where room is needed, and else.
constexpr std::uint64_t partial_limit_ns = 120'000'000'000;
constexpr std::uint64_t sweep_pause_ns = 1'000'000'000, idle_sweep_pause_ns = 5'000'000'000;

}  // namespace

NotificationRoom::NotificationRoom(NotificationInbox& inbox, const std::string& agent, std::string_view text)
    : inbox_(inbox),
      notification_{agent, std::string(text)},
      bytes_(NotificationInbox::cost(agent, notification_.message)) {
    const MutexLock lock(inbox_.mutex_);
    if (inbox_.held_.notifications + bytes_ > inbox_.limits_.notifications) {
        bytes_ = 0;
        return;
    }
    inbox_.held_.notifications += bytes_;
    inbox_.promised_ += bytes_;
}

NotificationRoom::~NotificationRoom() {
    if (bytes_ == 0) return;
    const MutexLock lock(inbox_.mutex_);
    inbox_.held_.notifications -= bytes_;
    inbox_.promised_ -= bytes_;
}

void NotificationRoom::put(std::uint64_t nonce) {
    const MutexLock lock(inbox_.mutex_);
    inbox_.ready_.push_back(std::move(notification_));
    inbox_.promised_ -= std::exchange(bytes_, 0);
    inbox_.tell_of_ready();
    inbox_.delivered_.count_notification(nonce);
}

bool NotificationInbox::make_room(std::size_t bytes) {
    const std::uint64_t now = now_ns();
    if (now - swept_at_ < sweep_pause_ns) return false;
    swept_at_ = now;
    sweep(now);
    return held_.unfinished + bytes <= limits_.unfinished;
}

void NotificationInbox::sweep(std::uint64_t now) noexcept {
    for (auto entry = partial_.begin(); entry != partial_.end();) {
        const bool stale = entry->second.last_seen + partial_limit_ns < now;
        if (stale) held_.unfinished -= entry->second.held();
        entry = stale ? partial_.erase(entry) : std::next(entry);
    }
}

void NotificationInbox::drop_stale(std::uint64_t now) noexcept {
    const MutexLock lock(mutex_);
    if (now < idly_swept_at_ + idle_sweep_pause_ns) return;
    const bool overslept = now > std::exchange(idly_swept_at_, now) + 2 * idle_sweep_pause_ns;
    if (!overslept) sweep(now);
}

}  // namespace railyard
