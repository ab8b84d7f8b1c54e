#include "engine/notification_room.h"

#include <utility>

namespace railyard {

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

}  // namespace railyard
