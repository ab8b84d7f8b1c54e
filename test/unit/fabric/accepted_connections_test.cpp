// What peers have begun over connections that they made to us: when nothing of it goes on any more.
#include "fabric/accepted_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loopback_listener.h"

namespace railyard::fabric {
namespace accepted_connections_test {

using Which = AcceptedConnections::Which;

struct Accepted {
    explicit Accepted(const railyard::test::LoopbackListener& listener)
        : theirs(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        EXPECT_EQ(listener.connect_from(theirs), 0);
        ours = listener.take();
    }
    ~Accepted() {
        close(theirs);
        if (ours >= 0) close(ours);
    }
    Accepted(const Accepted&) = delete;
    Accepted& operator=(const Accepted&) = delete;

    void close_ours() { close(std::exchange(ours, -1)); }
    void carry(std::size_t bytes) {
        std::vector<char> some(std::size_t{1} << 20);
        for (; bytes > 0; bytes -= some.size()) {
            std::thread sends([&] {
                for (std::size_t done = 0; done < some.size();)
                    done += static_cast<std::size_t>(send(theirs, some.data(), some.size() - done, 0));
            });
            std::vector<char> into(some.size());
            EXPECT_EQ(recv(ours, into.data(), into.size(), MSG_WAITALL), static_cast<ssize_t>(into.size()));
            sends.join();
        }
    }
    /// It was shut down, and nothing of what had come is left.
    [[nodiscard]] bool is_over() const {
        char byte = 0;
        return recv(ours, &byte, 1, MSG_DONTWAIT) == 0;
    }

    int theirs = -1, ours = -1;
};

class AcceptedConnectionsTest : public testing::Test {
  protected:
    [[nodiscard]] AcceptedConnections now() const { return {{listener_.name()}, {listener_.name()}}; }

    const railyard::test::LoopbackListener listener_{4};
};

TEST_F(AcceptedConnectionsTest, NoneHaveNothingUnderWay) {
    EXPECT_TRUE(AcceptedConnections().are_through());
    EXPECT_TRUE(now().are_through());
}

/// What has come is still read from one that has ended.
TEST_F(AcceptedConnectionsTest, OneIsThroughOnceItIsClosedHere) {
    Accepted connection(listener_);
    AcceptedConnections connections = now();
    EXPECT_FALSE(connections.are_through());
    ASSERT_EQ(shutdown(connection.theirs, SHUT_RDWR), 0);
    EXPECT_FALSE(connections.are_through());
    connection.close_ours();
    const Accepted other(listener_);  // has its number
    EXPECT_TRUE(connections.are_through());
}

TEST_F(AcceptedConnectionsTest, OneIsThroughOnceItHasCarriedEnough) {
    Accepted connection(listener_);
    connection.carry(std::size_t{1} << 20);
    AcceptedConnections connections = now();
    connection.carry(AcceptedConnections::most_under_way - (std::size_t{1} << 20));
    EXPECT_FALSE(connections.are_through());
    connection.carry(std::size_t{1} << 20);
    EXPECT_TRUE(connections.are_through());
}

/// It waits for nobody else, and is what a late peer's answer to a READ is.
TEST_F(AcceptedConnectionsTest, OneThatCannotSendIsNot) {
    Accepted connection(listener_);
    AcceptedConnections connections = now();
    connection.carry(AcceptedConnections::most_under_way);
    const std::vector<char> bytes(65536);
    for (ssize_t taken = 1; taken > 0;)
        taken = send(connection.ours, bytes.data(), bytes.size(), MSG_DONTWAIT);
    EXPECT_FALSE(connections.are_through());
}

TEST_F(AcceptedConnectionsTest, ThoseOfOtherHostsAreNoneOfThem) {
    const Accepted connection(listener_);
    std::string elsewhere = listener_.name();
    elsewhere[7] = 2;  // 127.0.0.2
    EXPECT_TRUE(AcceptedConnections({listener_.name()}, {elsewhere}).are_through());
    EXPECT_FALSE(AcceptedConnections({listener_.name()}, {elsewhere, listener_.name()}).are_through());
}

TEST_F(AcceptedConnectionsTest, OneThatIsUsedIsEndedLast) {
    Accepted used(listener_), idle(listener_);
    AcceptedConnections connections = now();
    connections.end_one(Which::idle);
    EXPECT_FALSE(used.is_over() || idle.is_over()) << "nobody knows yet";
    for (int i = 0; i < 3; ++i) {
        used.carry(std::size_t{1} << 20);
        connections.end_one(Which::idle);
    }
    EXPECT_TRUE(idle.is_over());
    EXPECT_FALSE(used.is_over());
    idle.close_ours();
    EXPECT_FALSE(connections.are_through());
    connections.end_one(Which::any);
    EXPECT_TRUE(used.is_over());
    used.close_ours();
    EXPECT_TRUE(connections.are_through());
}

}  // namespace accepted_connections_test
}  // namespace railyard::fabric
