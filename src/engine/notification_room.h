// Room in the inbox for a notification that comes with something else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/notification.h"

namespace railyard {

/// What came with a letter, and is not the application's yet: the inbox keeps its place meanwhile, so that
/// what it announces can be done first, and is not done where there is none. One thread; the inbox outlives
/// it.
class NotificationRoom {
  public:
    /// Throws std::bad_alloc.
    NotificationRoom(NotificationInbox& inbox, const std::string& agent, std::string_view text);
    /// Gives it back, unless it was put there.
    ~NotificationRoom();
    NotificationRoom(const NotificationRoom&) = delete;
    NotificationRoom& operator=(const NotificationRoom&) = delete;

    /// False: too much waits for the application already.
    [[nodiscard]] bool is_kept() const noexcept { return bytes_ != 0; }
    /// Once, if it is kept: from that instance, to the application. Throws std::bad_alloc.
    void put(std::uint64_t nonce);

  private:
    NotificationInbox& inbox_;
    Notification notification_;
    std::size_t bytes_;  // as the inbox counts it; 0: none
};

}  // namespace railyard
