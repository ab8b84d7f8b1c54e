#include "fabric/unsent_bytes.h"

#include <sys/socket.h>

#include <utility>

#include "fabric/sockets.h"

namespace railyard::fabric {
namespace {

void reset_when_closed(int socket, bool reset) noexcept {
    const linger value{reset ? 1 : 0, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &value, sizeof(value));
}

}  // namespace

UnsentBytesDropped::UnsentBytesDropped(std::vector<std::string> peers)
    : peers_(std::move(peers)), sockets_(sockets_to(peers_)) {
    for (const int socket : sockets_)
        reset_when_closed(socket, true);
}

UnsentBytesDropped::~UnsentBytesDropped() {
    for (const int socket : sockets_) {
        if (leads_to(socket, peers_)) reset_when_closed(socket, false);
    }
}

}  // namespace railyard::fabric
