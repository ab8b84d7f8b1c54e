#include "fabric/unsent_bytes.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <vector>

namespace railyard::fabric {
namespace {

/// A connection over loopback whose other end does not read, until the kernel takes no more.
class FullConnection {
  public:
    FullConnection() : listener_(socket(AF_INET, SOCK_STREAM, 0)), ours(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(any);
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&any), length), 0);
        EXPECT_EQ(listen(listener_, 1), 0);
        EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &length), 0);
        EXPECT_EQ(connect(ours, reinterpret_cast<sockaddr*>(&any), length), 0);
        theirs_ = accept(listener_, nullptr, nullptr);
        peer.assign(reinterpret_cast<const char*>(&any), sizeof(any));
        const std::vector<char> bytes(65536, 'x');
        for (ssize_t taken = 1; taken > 0; written += taken > 0 ? static_cast<std::size_t>(taken) : 0)
            taken = send(ours, bytes.data(), bytes.size(), MSG_DONTWAIT);
        EXPECT_GT(written, bytes.size());
    }
    ~FullConnection() {
        close(listener_);
        close(theirs_);
    }
    FullConnection(const FullConnection&) = delete;
    FullConnection& operator=(const FullConnection&) = delete;

    /// All that comes, once ours is closed.
    [[nodiscard]] std::size_t arrives() const {
        std::size_t total = 0;
        std::vector<char> into(1 << 20);
        for (ssize_t got = 1; got > 0; total += got > 0 ? static_cast<std::size_t>(got) : 0)
            got = recv(theirs_, into.data(), into.size(), 0);
        return total;
    }

  private:
    int listener_, theirs_ = -1;

  public:
    int ours;
    std::string peer;
    std::size_t written = 0;
};

TEST(UnsentBytes, AreSentAfterTheCloseElse) {
    FullConnection connection;
    close(connection.ours);
    EXPECT_EQ(connection.arrives(), connection.written);
}

TEST(UnsentBytes, AreNotSentAfterAClose) {
    FullConnection connection;
    {
        const UnsentBytesDropped dropped({connection.peer});
        close(connection.ours);
    }
    EXPECT_LT(connection.arrives(), connection.written);
}

TEST(UnsentBytes, OfConnectionsThatStayAndOfOthersAreLeftAlone) {
    FullConnection stays, other;
    {
        const UnsentBytesDropped dropped({stays.peer});
        close(other.ours);
    }
    close(stays.ours);
    EXPECT_EQ(stays.arrives(), stays.written);
    EXPECT_EQ(other.arrives(), other.written);
}

}  // namespace
}  // namespace railyard::fabric
