// Messages cut as a sender cuts them, and what an inbox makes of them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/notification.h"

namespace railyard::test {

using Bytes = std::vector<std::byte>;

/// What goes over the wire, in pieces of at most `size` bytes.
inline std::vector<Bytes> fragments(OutNotification& message, std::size_t size) {
    std::vector<Bytes> out;
    bool more = true;
    while (more) {
        Bytes buffer(size);
        buffer.resize(message.fill(message, buffer));
        out.push_back(std::move(buffer));
        more = message.advance(message);
    }
    return out;
}

/// All that have come.
inline std::vector<Notification> taken(NotificationInbox& inbox) {
    std::vector<Notification> out;
    inbox.take(out);
    return out;
}

}  // namespace railyard::test
