// A client of a Unix socket, for tests.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "common/unix_address.h"

namespace railyard::test {

/// Connected from its making to its end, where somebody listens.
class UnixClient {
  public:
    explicit UnixClient(const std::string& name) {
        const UnixAddress address(name);
        connected_ = connect(fd_, address.get(), address.length()) == 0;
    }
    ~UnixClient() { close(fd_); }
    UnixClient(const UnixClient&) = delete;
    UnixClient& operator=(const UnixClient&) = delete;

    [[nodiscard]] bool connected() const { return connected_; }
    [[nodiscard]] bool ended() const { return ended_; }
    void say(std::string_view text) const {
        [[maybe_unused]] const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    }
    void say_no_more() const { shutdown(fd_, SHUT_WR); }
    /// Adds what has come to what it returns; waits for more, or the end, for so long at most.
    const std::string& hear(int wait_ms = 0) {
        char bytes[65536];
        pollfd readable{fd_, POLLIN, 0};
        while (!ended_ && poll(&readable, 1, wait_ms) > 0) {
            const ssize_t count = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
            if (count < 0) error_ = errno;
            if (count <= 0) ended_ = true;
            if (count > 0) heard_.append(bytes, static_cast<std::size_t>(count));
        }
        return heard_;
    }
    /// Of the end; 0: as it should.
    [[nodiscard]] int error() const { return error_; }

  private:
    const int fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected_ = false;
    bool ended_ = false;
    int error_ = 0;
    std::string heard_;
};

}  // namespace railyard::test
