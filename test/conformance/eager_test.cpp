// Small WRITEs and READs over sockets: one message each, with its notification, and ended when the bytes are
// in their places.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "engine_pair.h"
#include "manager/registration.h"

namespace railyard::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Case {
    Fabric fabric;
    Operation operation;
};

std::vector<Case> both_ways(const std::vector<Fabric>& fabrics) {
    std::vector<Case> cases;
    for (const Fabric& fabric : fabrics) {
        for (const Operation operation : {Operation::write, Operation::read})
            cases.push_back({fabric, operation});
    }
    return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    return fabric_name({info.param.fabric, info.index}) +
           (info.param.operation == Operation::read ? "_read" : "_write");
}

class EagerTest : public testing::TestWithParam<Case> {
  protected:
    static constexpr std::size_t size = std::size_t{64} << 10;

    void start(const ParamMap& params = {}) {
        pair_ = std::make_unique<EnginePair>(GetParam().fabric, GetParam().fabric, params);
        source_ = std::make_unique<Buffer>(*pair_->a, size);
        target_ = std::make_unique<Buffer>(*pair_->b, size);
        remote_ = pair_->publish(*target_);
    }
    [[nodiscard]] Buffer& from() { return GetParam().operation == Operation::write ? *source_ : *target_; }
    [[nodiscard]] Buffer& to() { return GetParam().operation == Operation::write ? *target_ : *source_; }
    Transfer* prepare(std::size_t pieces, std::size_t length, std::optional<std::string_view> text = "told") {
        std::vector<LocalDescriptor> local;
        std::vector<RemoteDescriptor> remote;
        for (std::size_t i = 0; i < pieces; ++i) {
            local.push_back(source_->local(2 * i * length, length));
            remote.push_back({target_->address() + 2 * i * length, length, &remote_});
        }
        return pair_->a->prepare(GetParam().operation, local, remote, "beta", text);
    }
    /// Posted until it goes as a message, which it does once the peer has said that it knows us.
    Transfer* acquainted(std::size_t pieces = 1, std::size_t length = 8) {
        Transfer* const transfer = prepare(pieces, length);
        std::size_t rounds = 0;
        std::uint64_t before = 0;
        do {
            before = operations();
            EXPECT_EQ(pair_->run(*transfer), Status::ok);
            pair_->notifications(1);
        } while (operations() != before && ++rounds < 1000);
        EXPECT_LT(rounds, 1000u) << "it never goes as a message";
        return transfer;
    }
    [[nodiscard]] std::uint64_t operations() const {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : pair_->a->rail_counters())
            sum += rail.operations[0] + rail.operations[1];
        return sum;
    }
    [[nodiscard]] std::uint64_t messages() const {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : pair_->a->rail_counters())
            sum += rail.control.fragments_sent;
        return sum;
    }
    /// With nobody driving the target, which has no thread.
    void drive_alone(Transfer& transfer, milliseconds time) {
        const auto end = Clock::now() + time;
        while (Clock::now() < end)
            static_cast<void>(pair_->a->poll(transfer));
    }
    std::uint64_t operations_of(Transfer& transfer) {
        const std::uint64_t before = operations();
        EXPECT_EQ(pair_->run(transfer), Status::ok);
        pair_->a->release(&transfer);
        return operations() - before;
    }
    void expect_ordinary(Transfer* transfer, std::size_t told, const char* what,
                         const std::string* text = nullptr) {
        const std::uint64_t before = operations();
        Status status = pair_->a->post(*transfer, text);
        if (status == Status::in_progress) status = pair_->wait(*transfer);
        EXPECT_EQ(status, Status::ok) << what;
        pair_->notifications(told);
        EXPECT_GT(operations(), before) << what;
        pair_->a->release(transfer);
    }

    std::unique_ptr<Buffer> source_, target_;
    std::shared_ptr<RemoteRegion> remote_;
    std::unique_ptr<EnginePair> pair_;  // goes first: what sleeps may still take what has come
};

/// For what a target does that is driven, or not.
class SleepyTargetTest : public EagerTest {};

/// The second time, of several fragments.
TEST_P(EagerTest, DataAndNotificationAreOneMessage) {
    start();
    for (const std::size_t length : {std::size_t{100}, std::size_t{1000}}) {
        Transfer* const transfer = acquainted(16, length);
        const std::uint64_t operations_before = operations(), messages_before = messages();
        constexpr std::uint32_t rounds = 50;
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            fill_pattern(from().bytes, round);
            const std::vector<std::uint8_t> before = to().bytes;
            const std::string text = "round " + std::to_string(round);
            Status status = pair_->a->post(*transfer, &text);
            if (status == Status::in_progress) status = pair_->wait(*transfer);
            ASSERT_EQ(status, Status::ok);
            for (std::size_t at = 0; at < size; ++at) {
                const bool moved = at < 32 * length && at / length % 2 == 0;
                ASSERT_EQ(to().bytes[at], moved ? from().bytes[at] : before[at]) << "byte " << at;
            }
            const auto got = pair_->notifications(1);
            ASSERT_EQ(got.size(), 1u);
            EXPECT_EQ(got[0].agent, "alpha");
            EXPECT_EQ(got[0].message, text);
        }
        EXPECT_EQ(operations(), operations_before);
        const bool in_fragments = length == 1000 && GetParam().operation == Operation::write;
        const std::uint32_t expected = in_fragments ? 2 * rounds : rounds;
        EXPECT_GE(messages() - messages_before, expected);
        EXPECT_LE(messages() - messages_before, expected + 20)
            << "pings, where it takes long, and what is repeated";
        pair_->a->release(transfer);
    }
}

TEST_P(EagerTest, OthersGoTheOrdinaryWay) {
    start();
    pair_->a->release(acquainted());
    expect_ordinary(prepare(1, 8, std::nullopt), 0, "one piece and no notification");
    expect_ordinary(prepare(1, 16385), 1, "too long");
    expect_ordinary(prepare(12, 2049), 1, "too long for its pieces");
    const std::string text(65530, 't');
    expect_ordinary(prepare(1, 8), 1, "with its notification too long", &text);
    expect_ordinary(prepare(600, 1), 1, "in too many pieces");
    EXPECT_EQ(operations_of(*prepare(12, 8, std::nullopt)), 0u) << "in pieces";
    EXPECT_EQ(operations_of(*prepare(16, 2048, std::nullopt)), 0u) << "in larger ones";
    Transfer* const first = prepare(1, 8, std::nullopt);
    const std::uint64_t before = operations();
    const std::string late = "given with the post";
    EXPECT_EQ(pair_->run(*first), Status::ok);
    EXPECT_EQ(operations(), before + 1);
    static_cast<void>(pair_->a->post(*first, &late));
    EXPECT_EQ(pair_->wait(*first), Status::ok);
    EXPECT_EQ(pair_->notifications(1)[0].message, late);
    EXPECT_EQ(operations(), before + 1) << "this one needs no operation";
    pair_->a->release(first);
}

TEST_P(EagerTest, NobodyDoesSoWhereEitherSideHasItOff) {
    start({{"eager_limit", "0"}});
    for (int round = 0; round < 20; ++round)
        expect_ordinary(prepare(1, 8), 1, "off");
    EXPECT_FALSE(remote_->eager);
}

/// Many callers, each with transfers of its own: none is lost, none comes twice.
TEST_P(EagerTest, ThreadsDoNotGetIntoEachOthersWay) {
    if (!GetParam().fabric.progress_thread) GTEST_SKIP() << "needs progress threads";
    start();
    acquainted();
    constexpr std::uint32_t threads = 4, rounds = 300;
    std::vector<std::thread> callers;
    std::atomic<std::uint32_t> failed{0};
    for (std::uint32_t caller = 0; caller < threads; ++caller) {
        callers.emplace_back([&, caller] {
            const std::size_t at = 1024 + caller * 8;
            const LocalDescriptor local = source_->local(at, 8);
            const RemoteDescriptor remote{target_->address() + at, 8, &remote_};
            const std::string text(1, static_cast<char>('a' + caller));
            Transfer* const transfer =
                pair_->a->prepare(GetParam().operation, {&local, 1}, {&remote, 1}, "beta", text);
            for (std::uint32_t round = 1; round <= rounds; ++round) {
                std::fill_n(&from().bytes[at], 8, static_cast<std::uint8_t>(round));
                if (run_alone(*pair_->a, *transfer) != Status::ok) ++failed;
                if (to().bytes[at + 7] != static_cast<std::uint8_t>(round)) ++failed;
            }
            pair_->a->release(transfer);
        });
    }
    for (std::thread& caller : callers)
        caller.join();
    EXPECT_EQ(failed.load(), 0u);
    std::vector<std::uint32_t> told(threads);
    for (const Notification& one : pair_->notifications(threads * rounds))
        ++told.at(static_cast<std::size_t>(one.message[0] - 'a'));
    EXPECT_EQ(told, std::vector<std::uint32_t>(threads, rounds));
}

/// That the kernel has it, or the target's provider, is not enough; and however often it has been sent
/// meanwhile, it is taken once.
TEST_P(SleepyTargetTest, EndsWhenTheBytesAreInTheirPlace) {
    start();
    Transfer* const transfer = acquainted();
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{1});
    const std::uint64_t before = messages();
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    drive_alone(*transfer, milliseconds(400));
    EXPECT_EQ(pair_->a->poll(*transfer), Status::in_progress) << "ended before its bytes were there";
    EXPECT_GE(messages() - before, 3u) << "nobody is asked again";
    EXPECT_EQ(pair_->wait(*transfer), Status::ok);
    EXPECT_EQ(to().bytes[7], 1);
    EXPECT_EQ(pair_->notifications(1).size(), 1u);
    std::fill_n(to().bytes.begin(), 8, std::uint8_t{2});
    pair_->until([] { return false; }, milliseconds(300));
    EXPECT_FALSE(pair_->b->has_notifications()) << "taken twice";
    EXPECT_EQ(to().bytes[7], 2) << "written twice";
    pair_->a->release(transfer);
}

/// Its application has removed us; our memory of its keys is as good as before.
TEST_P(SleepyTargetTest, ATargetThatHasForgottenWhoAsksIsIntroducedAgain) {
    start();
    Transfer* const transfer = acquainted();
    pair_->b->disconnect("alpha");
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{3});
    const auto begun = Clock::now();
    EXPECT_EQ(pair_->run(*transfer), Status::ok);
    EXPECT_LT(Clock::now() - begun, milliseconds(3000));
    EXPECT_EQ(to().bytes[0], 3);
    EXPECT_EQ(pair_->notifications(1).size(), 1u);
    pair_->a->release(transfer);
}

TEST_P(SleepyTargetTest, MemoryThatIsGoneThereIsAnError) {
    start();
    Transfer* const transfer = acquainted();
    pair_->b->deregister_memory(target_->region);
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{4});
    EXPECT_EQ(pair_->run(*transfer), Status::invalid_param);
    EXPECT_NE(to().bytes[0], 4);
    EXPECT_FALSE(pair_->b->has_notifications());
    pair_->a->release(transfer);
}

TEST_P(SleepyTargetTest, APeerThatSleepsOnIsGivenUp) {
    start({{"peer_timeout_ms", "1000"}});
    Transfer* const transfer = acquainted();
    const auto begun = Clock::now();
    EXPECT_EQ(run_alone(*pair_->a, *transfer), Status::remote_disconnect);
    EXPECT_LT(Clock::now() - begun, milliseconds(4000));
    pair_->a->release(transfer);
}

/// With a target that sleeps on: nobody waits for it.
TEST_P(SleepyTargetTest, ReleasedUnderWayItWaitsForNobody) {
    start();
    Transfer* const transfer = acquainted();
    Transfer* const other = prepare(1, 8);
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    const auto begun = Clock::now();
    pair_->a->release(transfer);
    EXPECT_LT(Clock::now() - begun, milliseconds(1000));
    EXPECT_EQ(pair_->run(*other), Status::ok);
    pair_->a->release(other);
}

/// Whatever the answer to the READ still brings.
TEST_P(SleepyTargetTest, MemoryOfAReleasedReadIsLeftAlone) {
    if (GetParam().operation != Operation::read) GTEST_SKIP() << "of READs";
    start();
    Transfer* const transfer = acquainted();
    std::fill_n(target_->bytes.begin(), 8, std::uint8_t{6});
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    drive_alone(*transfer, milliseconds(5));
    pair_->a->release(transfer);
    std::fill_n(source_->bytes.begin(), 8, std::uint8_t{5});
    EXPECT_EQ(pair_->notifications(1).size(), 1u) << "it has been read there";
    pair_->until([] { return false; }, milliseconds(100));
    EXPECT_EQ(source_->bytes[0], 5);
}

/// As many as may be under way, and more.
TEST_P(SleepyTargetTest, ABurstComesWhole) {
    start();
    acquainted();
    std::vector<Transfer*> burst;
    for (int i = 0; i < 50; ++i)
        burst.push_back(prepare(1, 8));
    const std::uint64_t before = operations();
    for (Transfer* transfer : burst)
        ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    for (Transfer* transfer : burst)
        EXPECT_EQ(pair_->wait(*transfer), Status::ok);
    EXPECT_EQ(pair_->notifications(burst.size()).size(), burst.size());
    EXPECT_GT(operations(), before) << "one peer is asked to take any number of messages";
    EXPECT_LT(operations(), before + burst.size()) << "none went as a message";
    for (Transfer* transfer : burst)
        pair_->a->release(transfer);
}

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
    socklen_t size = sizeof(own);
    if (getsockname(connection, reinterpret_cast<sockaddr*>(&own), &size) != 0 || own.sin_family != AF_INET)
        return false;
    size = sizeof(peer);
    if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
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
TEST_P(EagerTest, LostConnectionsLoseNothingOfWhatSucceeds) {
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
    std::uint64_t notified = 0, succeeded = 0, failed = 0, cut = 0, lost = 0;
    const auto take = [&](std::uint64_t round) {
        std::vector<Notification> got;
        pair_->b->take_notifications(got);
        for (const Notification& one : got) {
            ++notified;
            EXPECT_LE(std::stoull(one.message), round);
            if (read) {
                put_number(*target_, notified);
            } else if (one.message == std::to_string(round)) {
                EXPECT_EQ(number_in(*target_), round) << "notified before its data";
            }
        }
        return got.size();
    };
    if (read) put_number(*target_, 0);
    const std::uint64_t& counted = GetParam().fabric.progress_thread ? cut : lost;
    const auto begun = Clock::now();
    // Longer where a machine is slow.
    const auto goes_on = [&] {
        return Clock::now() - begun < milliseconds(counted > 5 ? 4000 : 20'000) && !HasFailure();
    };
    for (std::uint64_t round = 1; goes_on(); ++round) {
        if (!read) put_number(*source_, round);
        const std::string text = std::to_string(round);
        const std::uint64_t before = notified;
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
            pair_->until([&] { return take(round) != 0; }, milliseconds(20));  // or it never comes
            continue;
        }
        ++succeeded;
        EXPECT_TRUE(pair_->until([&] { return take(round), notified != before; })) << "nobody was told";
        EXPECT_EQ(notified, before + 1) << "told twice";
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

INSTANTIATE_TEST_SUITE_P(Fabrics, EagerTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, true}})), case_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, SleepyTargetTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, false}})), case_name);

}  // namespace
}  // namespace railyard::test
