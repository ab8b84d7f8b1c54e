// A listening socket on loopback, of the kernel's choice of port.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace railyard::test {

class LoopbackListener {
  public:
    explicit LoopbackListener(int backlog) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address_);
        auto* const generic = reinterpret_cast<sockaddr*>(&address_);
        EXPECT_EQ(bind(socket_, generic, length), 0);
        EXPECT_EQ(listen(socket_, backlog), 0);
        EXPECT_EQ(getsockname(socket_, generic, &length), 0);
    }
    ~LoopbackListener() { close(socket_); }
    LoopbackListener(const LoopbackListener&) = delete;
    LoopbackListener& operator=(const LoopbackListener&) = delete;

    /// As connect() returns.
    [[nodiscard]] int connect_from(int socket) const {
        return connect(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_));
    }
    [[nodiscard]] int take() const { return accept(socket_, nullptr, nullptr); }
    /// The sockaddr's bytes, as providers give addresses.
    [[nodiscard]] std::string name() const {
        return {reinterpret_cast<const char*>(&address_), sizeof(address_)};
    }

  private:
    int socket_;
    sockaddr_in address_{};
};

}  // namespace railyard::test
