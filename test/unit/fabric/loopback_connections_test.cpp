#include "fabric/loopback_connections.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "fabric/sockets.h"
#include "loopback_listener.h"

namespace railyard::fabric {
namespace {

std::string control_of(int socket) {
    char name[16] = {};
    socklen_t length = sizeof(name);
    EXPECT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    return name;
}

/// A paced one, or what else the kernel has: then Reno is the default, and nothing can be seen.
bool set_other(int socket) {
    for (const std::string name : {"bbr", "cubic"})
        if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) == 0) return true;
    return false;
}

class LoopbackConnectionsTest : public testing::Test {
  protected:
    void SetUp() override {
        ours_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(listener_.connect_from(ours_), 0);
        theirs_ = listener_.take();
        if (!set_other(ours_)) GTEST_SKIP() << "the kernel has Reno alone";
    }
    ~LoopbackConnectionsTest() override {
        close(ours_);
        close(theirs_);
    }

    const railyard::test::LoopbackListener listener_{2};
    const railyard::test::LoopbackListener other_{1};
    int ours_ = -1, theirs_ = -1;
};

TEST_F(LoopbackConnectionsTest, ThoseToPeersAreNotPaced) {
    LoopbackConnections connections(true, other_.name());
    connections.expect(1000);
    EXPECT_FALSE(connections.due(1000));
    ASSERT_TRUE(connections.due(1001));
    connections.look({other_.name()}, 1001);
    EXPECT_NE(control_of(ours_), "reno") << "it leads elsewhere";
    connections.look({other_.name(), listener_.name()}, 1001);
    EXPECT_EQ(control_of(ours_), "reno");
}

TEST_F(LoopbackConnectionsTest, ThoseThatAreAcceptedAreNotPaced) {
    const LoopbackConnections connections(true, listener_.name());
    EXPECT_EQ(control_of(theirs_), "reno") << "taken before";
    const int next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(listener_.connect_from(next), 0);
    const int taken = listener_.take();
    EXPECT_EQ(control_of(taken), "reno");
    EXPECT_NE(control_of(ours_), "reno");
    close(taken);
    close(next);
}

TEST_F(LoopbackConnectionsTest, ThoseOfOtherInterfacesAreLeftAlone) {
    ASSERT_TRUE(set_other(theirs_));
    LoopbackConnections connections(false, listener_.name());
    connections.expect(0);
    EXPECT_FALSE(connections.due(UINT64_MAX));
    EXPECT_NE(control_of(theirs_), "reno");
}

TEST_F(LoopbackConnectionsTest, TheyAreLookedForNowAndThenAndNotForEver) {
    LoopbackConnections connections(true, other_.name());
    for (int again = 0; again < 2; ++again) {
        connections.expect(0);
        int looks = 0;
        for (std::uint64_t carried = 0; carried < 100 << 20; carried += 4096) {
            if (!connections.due(carried)) continue;
            connections.look({}, carried);
            ++looks;
        }
        EXPECT_EQ(looks, 6);
    }
}

TEST(Sockets, TellWhoIsOnThisHostForSure) {
    EXPECT_TRUE(is_loopback(railyard::test::LoopbackListener(1).name()));
    sockaddr_in ip4{};
    ip4.sin_family = AF_INET;
    ip4.sin_addr.s_addr = htonl(0x0a000001);
    EXPECT_FALSE(is_loopback({reinterpret_cast<const char*>(&ip4), sizeof(ip4)}));
    sockaddr_in6 ip6{};
    ip6.sin6_family = AF_INET6;
    EXPECT_FALSE(is_loopback({reinterpret_cast<const char*>(&ip6), sizeof(ip6)}));
    ip6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
    EXPECT_TRUE(is_loopback({reinterpret_cast<const char*>(&ip6), sizeof(ip6)}));
    EXPECT_FALSE(is_loopback("fi_shm://1:0:0"));
    EXPECT_FALSE(is_loopback({}));
}

int value_of(int socket, int level, int option) {
    int value = -1;
    socklen_t length = sizeof(value);
    EXPECT_EQ(getsockopt(socket, level, option, &value, &length), 0);
    return value;
}

TEST(Sockets, ThatAListenerAcceptsAreKeptAlive) {
    const railyard::test::LoopbackListener listener(1), other(1);
    ASSERT_TRUE(keep_alive(listener.name()));
    for (const auto* from : {&listener, &other}) {
        const int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(from->connect_from(ours), 0);
        const int taken = from->take();
        EXPECT_EQ(value_of(taken, SOL_SOCKET, SO_KEEPALIVE), from == &listener ? 1 : 0);
        if (from == &listener) {
            EXPECT_EQ(value_of(taken, IPPROTO_TCP, TCP_KEEPIDLE), 60);
            EXPECT_EQ(value_of(taken, IPPROTO_TCP, TCP_KEEPINTVL), 10);
            EXPECT_EQ(value_of(taken, IPPROTO_TCP, TCP_KEEPCNT), 90);
        }
        close(taken);
        close(ours);
    }
}

TEST(Sockets, ThatDoNotListenAreNotFoundToKeepAlive) {
    EXPECT_FALSE(keep_alive("fi_shm://1:0:0"));
}

/// Its kernel answers, though nobody reads.
TEST(Sockets, OfAPeerThatDoesNotReadDoNotSendInVain) {
    const railyard::test::LoopbackListener listener(1);
    const int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(listener.connect_from(ours), 0);
    const std::string bytes(65536, 'x');
    while (send(ours, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    EXPECT_FALSE(send_in_vain({listener.name()}, 1'000'000'000));
    EXPECT_FALSE(send_in_vain({}, 0));
    close(ours);
}

}  // namespace
}  // namespace railyard::fabric
