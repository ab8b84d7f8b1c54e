// Small transfers in messages: which connections they take, and what becomes of them where the kernel ends
// these.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "eager_fixture.h"
#include "least_of.h"

namespace railyard::test {
namespace {

/// One end of a connection.
struct End {
    in_port_t own = 0, peer = 0;
    std::uint64_t received = 0;  // bytes, ever
};

class EagerConnectionsTest : public EagerTest {
  protected:
    static std::map<int, End> ends();
    /// Those that receive something in each of some transfers.
    std::vector<End> ends_at_work(Transfer& transfer);
    /// The ports of the one that both directions of them take; {0, 0}: there is no such one.
    std::pair<in_port_t, in_port_t> common_connection(Transfer& transfer) {
        const std::vector<End> busy = ends_at_work(transfer);
        const bool common = busy.size() == 2 && busy[0].own == busy[1].peer && busy[0].peer == busy[1].own;
        if (!common) return none;
        return std::minmax(busy[0].own, busy[0].peer);
    }
    /// Once there is one: what a busy machine held up may go another way for a moment.
    std::pair<in_port_t, in_port_t> some_common_connection(Transfer& transfer) {
        auto found = none;
        EXPECT_TRUE(pair_->until([&] { return (found = common_connection(transfer)) != none; }));
        return found;
    }
    /// In one of three tries, for the same reason.
    bool goes_over(std::pair<in_port_t, in_port_t> connection, Transfer& transfer) {
        return least_of(1, [&] { return common_connection(transfer) == connection ? 0 : 1; }) == 0;
    }
    static constexpr std::pair<in_port_t, in_port_t> none{0, 0};
};

class EndedConnectionsTest : public EagerTest {};

/// Of this process.
std::vector<int> tcp_connections() {
    std::vector<int> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int file = std::stoi(entry.path().filename().string());
        sockaddr_storage peer{};
        socklen_t size = sizeof(peer);
        if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            all.push_back(file);
    }
    return all;
}

/// False: it has others than those of IPv4.
bool addresses_of(int connection, sockaddr_in& own, sockaddr_in& peer) {
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    return getsockname(connection, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
           getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
           own.sin_family == AF_INET;
}

std::map<int, End> EagerConnectionsTest::ends() {
    std::map<int, End> all;
    for (const int connection : tcp_connections()) {
        sockaddr_in own{}, peer{};
        if (!addresses_of(connection, own, peer)) continue;
        tcp_info info{};
        socklen_t size = sizeof(info);
        getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size);
        all[connection] = {own.sin_port, peer.sin_port, info.tcpi_bytes_received};
    }
    return all;
}

std::vector<End> EagerConnectionsTest::ends_at_work(Transfer& transfer) {
    constexpr int rounds = 50;
    constexpr std::size_t least_message = 64;
    const std::map<int, End> before = ends();
    for (int round = 0; round < rounds; ++round) {
        EXPECT_EQ(pair_->run(transfer), Status::ok);
        pair_->notifications(1);
    }
    std::vector<End> busy;
    for (const auto& [connection, end] : ends()) {
        const auto known = before.find(connection);
        const std::uint64_t had = known == before.end() ? 0 : known->second.received;
        if (end.received - had >= rounds * least_message) busy.push_back(end);
    }
    return busy;
}

/// One that carries bytes in one direction only costs acknowledgements of their own.
TEST_P(EagerConnectionsTest, AnswersComeBackOverTheConnectionOfTheirQuestion) {
    start();
    Transfer* const transfer = acquainted();
    const auto before = some_common_connection(*transfer);
    if (!GetParam().fabric.progress_thread) {
        // What is stopped has its sender replaced, of which the peer has to hear.
        Transfer* const stopped = prepare(1, size, std::nullopt);
        ASSERT_EQ(pair_->a->post(*stopped), Status::in_progress);
        pair_->a->release(stopped);
        auto after = none;
        EXPECT_TRUE(pair_->until([&] {
            after = common_connection(*transfer);
            return after != none && after != before;
        }));
    }
    pair_->a->release(transfer);
}

/// Its application removes us, as hosts do before they load renewed metadata, and loads us again, or not.
TEST_P(EagerConnectionsTest, AnswersComeBackOverItFromWhoHasForgottenTheAskerToo) {
    start();
    Transfer* const transfer = acquainted();
    const std::string info = pair_->a->connection_info();
    const auto before = some_common_connection(*transfer);
    for (int i = 0; i < 3; ++i) {
        pair_->b->disconnect("alpha");
        EXPECT_TRUE(goes_over(before, *transfer)) << "forgotten, " << i;
        pair_->b->load_connection_info("alpha", info);
        EXPECT_TRUE(goes_over(before, *transfer)) << "loaded again, " << i;
    }
    pair_->b->disconnect("alpha");
    pair_->b->load_connection_info("alpha", info);
    EXPECT_TRUE(goes_over(before, *transfer)) << "loaded again at once";
    pair_->a->release(transfer);
}

/// What the kernel would still hand over after the connection's end, a real end may lose with it.
void lose_unread(int connection) {
    std::array<char, 4096> bytes;
    while (recv(connection, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
}

bool has_unread(int connection) {
    int bytes = 0;
    return ioctl(connection, FIONREAD, &bytes) == 0 && bytes > 0;
}

/// As the kernel does where a peer has not answered for too long: both ends hear of an error, and what has
/// not been read at this end is lost. False: this kernel cannot, or we may not.
bool cut_off(int connection) {
    sockaddr_in own{}, peer{};
    if (!addresses_of(connection, own, peer)) return false;
    struct {
        nlmsghdr header{};
        inet_diag_req_v2 wanted{};
    } request;
    request.header.nlmsg_len = sizeof(request);
    request.header.nlmsg_type = SOCK_DESTROY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    request.wanted.sdiag_family = AF_INET;
    request.wanted.sdiag_protocol = IPPROTO_TCP;
    request.wanted.idiag_states = ~0u;
    request.wanted.id.idiag_sport = own.sin_port;
    request.wanted.id.idiag_dport = peer.sin_port;
    request.wanted.id.idiag_src[0] = own.sin_addr.s_addr;
    request.wanted.id.idiag_dst[0] = peer.sin_addr.s_addr;
    request.wanted.id.idiag_cookie[0] = request.wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    const int kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    struct {
        nlmsghdr header{};
        nlmsgerr error{};
    } answer;
    const bool done =
        kernel >= 0 && send(kernel, &request, sizeof(request), 0) == sizeof(request) &&
        recv(kernel, &answer, sizeof(answer), 0) >= static_cast<ssize_t>(sizeof(answer.header)) &&
        answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error == 0;
    if (kernel >= 0) close(kernel);
    return done;
}

/// Connections that end at any time take messages and answers with them. The target writes to its memory as
/// soon as it is notified, which says that it may: what it was then is what a READ has to bring, however
/// often it was asked for. What a WRITE brings is there when its notification is.
TEST_P(EndedConnectionsTest, LoseNothingOfWhatSucceeds) {
    start({{"peer_timeout_ms", "2000"}});
    Transfer* const transfer = acquainted();
    const bool read = GetParam().operation == Operation::read;
    const auto number_in = [](Buffer& buffer) {
        std::uint64_t number = 0;
        std::memcpy(&number, buffer.bytes.data(), sizeof(number));
        return number;
    };
    const auto put_number = [](Buffer& buffer, std::uint64_t number) {
        std::memcpy(buffer.bytes.data(), &number, sizeof(number));
    };
    std::mt19937 random(31);
    std::uint64_t succeeded = 0, failed = 0, cut = 0, lost = 0;
    std::set<std::uint64_t> notified;  // rounds
    const auto take = [&](std::uint64_t round) {
        std::vector<Notification> got;
        pair_->b->take_notifications(got);
        for (const Notification& one : got) {
            const std::uint64_t number = std::stoull(one.message);
            EXPECT_LE(number, round);
            EXPECT_TRUE(notified.insert(number).second) << "told twice";
            if (number != round) continue;  // one that failed, and is late
            if (read) {
                put_number(*target_, round);
            } else {
                EXPECT_EQ(number_in(*target_), round) << "notified before its data";
            }
        }
        return notified.contains(round);
    };
    if (read) put_number(*target_, 0);
    const std::uint64_t& counted = GetParam().fabric.progress_thread ? cut : lost;
    const auto begun = Clock::now();
    // Longer where a machine is slow.
    const auto goes_on = [&] {
        return Clock::now() - begun < milliseconds(counted > 5 ? 2000 : 20'000) && !HasFailure();
    };
    for (std::uint64_t round = 1; goes_on(); ++round) {
        if (!read) put_number(*source_, round);
        const std::string text = std::to_string(round);
        const std::uint64_t before = number_in(*target_);
        Status status = pair_->a->post(*transfer, &text);
        int steps = static_cast<int>(random() % 6);
        const auto limit = Clock::now() + milliseconds(15'000);
        while (status == Status::in_progress && Clock::now() < limit) {
            if (random() % 4 == 0) pair_->b->progress();
            take(round);
            if (round % 64 == 0 && steps-- == 0) {
                const std::vector<int> connections = tcp_connections();
                const auto unread = std::find_if(connections.begin(), connections.end(), has_unread);
                const int one = unread != connections.end() ? *unread
                                : connections.empty()       ? -1
                                                            : connections[random() % connections.size()];
                const bool loses = unread != connections.end() && !GetParam().fabric.progress_thread;
                if (loses) lose_unread(one);
                if (one >= 0) {
                    if (!cut_off(one)) GTEST_SKIP() << "this kernel ends nobody's connections, or we may not";
                    ++cut;
                    lost += loses ? 1 : 0;
                }
            }
            status = pair_->a->poll(*transfer);
        }
        ASSERT_NE(status, Status::in_progress) << "it hangs";
        if (status != Status::ok) {
            ++failed;
            pair_->until([&] { return take(round); }, milliseconds(20));  // or later, or it never comes
            continue;
        }
        ++succeeded;
        EXPECT_TRUE(pair_->until([&] { return take(round); })) << "nobody was told";
        if (read) {
            EXPECT_EQ(number_in(*source_), before) << "other bytes than when the notification came";
        } else {
            EXPECT_EQ(number_in(*target_), round);
        }
    }
    RecordProperty("rounds", static_cast<int>(succeeded));
    RecordProperty("cut", static_cast<int>(cut));
    RecordProperty("lost", static_cast<int>(lost));
    RecordProperty("failed", static_cast<int>(failed));
    EXPECT_GT(counted, 5u);
    EXPECT_GT(succeeded, cut);
    EXPECT_LE(failed, cut);
    pair_->a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EagerConnectionsTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, true}})), case_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, EndedConnectionsTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, true}})), case_name);

}  // namespace
}  // namespace railyard::test
