#include "fabric/unsent_bytes.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "few_files.h"
#include "loopback_listener.h"

namespace railyard::fabric {
namespace {

/// A connection over loopback whose other end does not read, until the kernel takes no more.
class FullConnection {
  public:
    FullConnection() : ours(socket(AF_INET, SOCK_STREAM, 0)), peer(listener_.name()) {
        EXPECT_EQ(listener_.connect_from(ours), 0);
        theirs_ = listener_.take();
        const std::vector<char> bytes(65536, 'x');
        for (ssize_t taken = 1; taken > 0; written += taken > 0 ? static_cast<std::size_t>(taken) : 0)
            taken = send(ours, bytes.data(), bytes.size(), MSG_DONTWAIT);
        EXPECT_GT(written, bytes.size());
    }
    ~FullConnection() { close(theirs_); }
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
    railyard::test::LoopbackListener listener_{1};
    int theirs_ = -1;

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

/// Where the open files cannot be listed.
TEST(UnsentBytes, AreNotSentAfterACloseWithoutADescriptorLeft) {
    FullConnection connection;
    {
        const test::FewFiles few(0);
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
