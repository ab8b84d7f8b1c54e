// Links that fail under engines over tcp.
#include <algorithm>

#include "least_of.h"
#include "net_faults.h"
#include "wire.h"

namespace railyard::test {
namespace {

struct Case {
    const char* name;
    Fault fault;
    int network;
    bool progress_thread;
    int ours = 1, theirs = 1;  ///< rails on each device
};
std::string case_name(const testing::TestParamInfo<Case>& info) {
    return info.param.name + std::string(info.param.progress_thread ? "_thread" : "_inline");
}

class OnlyLink : public NetFaults, public testing::WithParamInterface<Case> {};

TEST_P(OnlyLink, LostUnderTransfersIsAnErrorInTimeAndTakenBackByItself) {
    start("e1", GetParam().progress_thread);
    const auto b = peer("b"), c = peer("c");
    const std::vector<Transfer*> transfers = flight(*b);
    std::vector<Transfer*> others;
    if (GetParam().fault == Fault::their_link_down || GetParam().fault == Fault::black_hole)
        others = flight(*c);
    run_all(transfers);
    run_all(others);

    Trouble trouble(GetParam().fault, 1);
    auto struck = std::async(std::launch::async, [&] {
        trouble.strike();
        return Clock::now();
    });
    Course of_others;
    const Course course = pump(transfers, others, struck, of_others);
    EXPECT_EQ(course.errors, (std::map<Status, int>{{Status::remote_disconnect, 4}}));
    EXPECT_LT(course.last_end, milliseconds(3 * patience_ms))
        << patience_ms << " ms and a little are promised";
    std::fprintf(stderr, "errors within %lld ms; others meanwhile: %d, longest gap %lld ms\n",
                 static_cast<long long>(course.last_end.count()), of_others.carried_out,
                 static_cast<long long>(of_others.longest_gap.count()));
    if (!others.empty()) {
        EXPECT_TRUE(of_others.errors.empty());
        EXPECT_GT(of_others.carried_out, 8);
        EXPECT_LT(of_others.longest_gap, milliseconds(patience_ms));
    }
    for (Transfer* transfer : others)
        EXPECT_EQ(wait(*transfer), Status::ok);

    const Untouched bytes(*b->near);
    trouble.mend();
    const auto mended = Clock::now();
    EXPECT_TRUE(until([&] { return state_of("b") != PeerState::gone; })) << "never taken back";
    std::fprintf(stderr, "taken back after %lld ms\n", static_cast<long long>(since(mended).count()));
    EXPECT_LT(since(mended), std::chrono::seconds(10));
    EXPECT_TRUE(bytes.holds()) << "read into after the error";
    fill_pattern(b->near->bytes, 9);
    run_all(transfers);
    // What TCP had not sent before the error, it would send again by now.
    drive(milliseconds(2 * patience_ms));
    EXPECT_TRUE(b->same_bytes()) << "written to after the error";
}

INSTANTIATE_TEST_SUITE_P(Faults, OnlyLink,
                         testing::Values(Case{"our_link", Fault::our_link_down, 1, true},
                                         Case{"their_link", Fault::their_link_down, 1, false},
                                         Case{"carrier", Fault::unplugged, 1, true},
                                         Case{"black_hole", Fault::black_hole, 1, true}),
                         case_name);

class OneOfTwoLinks : public NetFaults, public testing::WithParamInterface<Case> {};

TEST_P(OneOfTwoLinks, LostUnderTransfersIsLeftOutAndTakenBack) {
    start("e1,e2", GetParam().progress_thread, {}, GetParam().ours);
    const std::string device = "e" + std::to_string(GetParam().network);
    const auto b = peer("b", GetParam().theirs);
    const std::vector<Transfer*> transfers = flight(*b);
    run_all(transfers);

    Trouble trouble(GetParam().fault, GetParam().network);
    auto struck = std::async(std::launch::async, [&] {
        trouble.strike();
        return Clock::now();
    });
    std::optional<Clock::time_point> at;
    int rounds = 0;
    milliseconds slowest{0};
    while (rounds < 5) {
        if (!at && struck.wait_for(milliseconds(0)) == std::future_status::ready) at = struck.get();
        const auto begin = Clock::now();
        for (Transfer* transfer : transfers) {
            const Status posted = engine_->post(*transfer);
            ASSERT_TRUE(posted == Status::in_progress || posted == Status::ok) << to_string(posted);
        }
        for (Transfer* transfer : transfers)
            ASSERT_EQ(wait(*transfer), Status::ok);
        slowest = std::max(slowest, since(begin));
        if (at) ++rounds;
    }
    std::fprintf(stderr, "slowest round %lld ms\n", static_cast<long long>(slowest.count()));
    EXPECT_LT(slowest, milliseconds(3 * patience_ms));
    EXPECT_TRUE(b->same_bytes());
    EXPECT_EQ(report_of("b").failed, static_cast<std::size_t>(GetParam().ours));

    trouble.mend();
    const auto mended = Clock::now();
    EXPECT_TRUE(until([&] { return report_of("b").failed == 0; })) << "never taken back";
    std::fprintf(stderr, "taken back after %lld ms\n", static_cast<long long>(since(mended).count()));
    const std::uint64_t before = bytes_sent(device);
    fill_pattern(b->near->bytes, 9);
    EXPECT_TRUE(until([&] {
        run_all(transfers);
        return bytes_sent(device) - before > flight_size / 8;
    })) << "not used again";
    std::fprintf(stderr, "carries data again after %lld ms\n", static_cast<long long>(since(mended).count()));
    EXPECT_TRUE(b->same_bytes());
}

INSTANTIATE_TEST_SUITE_P(
    Faults, OneOfTwoLinks,
    testing::Values(Case{"our_first", Fault::our_link_down, 1, true},
                    Case{"their_second", Fault::their_link_down, 2, true},
                    Case{"black_hole_first", Fault::black_hole, 1, false},
                    Case{"our_first_two_rails_each", Fault::our_link_down, 1, true, 2, 2},
                    Case{"black_hole_two_of_ours", Fault::black_hole, 1, false, 2, 1},
                    Case{"their_second_two_of_theirs", Fault::their_link_down, 2, true, 1, 2},
                    Case{"our_first_two_of_theirs", Fault::our_link_down, 1, true, 1, 2}),
    case_name);

/// A transfer's notification, all of a small one, and what goes with no transfer at all.
struct Notices {
    const char* name;
    std::size_t bytes;  ///< of the transfer; 0: there is none
    bool progress_thread;
};
class OneOfTwoLinksUnderNotices : public NetFaults, public testing::WithParamInterface<Notices> {};

TEST_P(OneOfTwoLinksUnderNotices, LostInSilenceIsLeftByThemInTime) {
    start("e1,e2", GetParam().progress_thread);
    const auto b = peer("b");
    b->process->load("alpha", engine_->connection_info());
    Transfer* const transfer = GetParam().bytes ? b->prepare(Operation::write, GetParam().bytes) : nullptr;
    Words wanted, got;
    const auto send = [&] {
        const std::string message = "message" + std::to_string(wanted.size());
        wanted.push_back("alpha:" + message);
        if (!transfer) return engine_->send_notification("b", message);
        const Status posted = engine_->post(*transfer, &message);
        ASSERT_TRUE(posted == Status::in_progress || posted == Status::ok) << to_string(posted);
        ASSERT_EQ(wait(*transfer), Status::ok) << message;
    };
    const auto all_are_there = [&] {
        for (std::string& message : b->process->notifications())
            got.push_back(std::move(message));
        return got.size() >= wanted.size();
    };
    for (int round = 0; round < 3; ++round)
        send();
    ASSERT_TRUE(until(all_are_there));

    Trouble trouble(Fault::black_hole, 1);  // their messages go there first
    trouble.strike();
    const auto struck = Clock::now();
    for (int round = 0; round < 3; ++round)
        send();
    EXPECT_TRUE(until(all_are_there)) << got.size() << " of " << wanted.size();
    std::fprintf(stderr, "all there after %lld ms\n", static_cast<long long>(since(struck).count()));
    EXPECT_LT(since(struck), milliseconds(5 * patience_ms));
    const auto send_twenty = [&] {
        const auto found_out = Clock::now();
        for (int round = 0; round < 20; ++round)
            send();
        EXPECT_TRUE(until(all_are_there));
        return since(found_out);
    };
    const milliseconds limit(patience_ms);
    EXPECT_LT(least_of(limit, send_twenty), limit) << "they go on taking it first";
    std::sort(got.begin(), got.end());
    std::sort(wanted.begin(), wanted.end());
    EXPECT_TRUE(got == wanted);
}

INSTANTIATE_TEST_SUITE_P(Faults, OneOfTwoLinksUnderNotices,
                         testing::Values(Notices{"large_inline", flight_size, false},
                                         Notices{"large_thread", flight_size, true},
                                         Notices{"small_inline", 64, false},
                                         Notices{"small_thread", 64, true}, Notices{"alone_inline", 0, false},
                                         Notices{"alone_thread", 0, true}),
                         [](const auto& way) { return way.param.name; });

struct Weather {
    const char* name;
    Wire::Quality quality;
    bool progress_thread;
};
class BadWire : public NetFaults, public testing::WithParamInterface<Weather> {};

TEST_P(BadWire, CarriesEverythingRightAndOnce) {
    if (!wire_is_possible()) GTEST_SKIP() << "needs /dev/net/tun (kernel module tun)";
    const Wire wire({namespace_of("a"), namespace_of("b")}, "e3", GetParam().quality);
    ASSERT_TRUE(bring_up("e3"));

    start("e3", GetParam().progress_thread, {{"peer_timeout_ms", "10000"}});
    const auto b = peer("b");
    b->process->load("alpha", engine_->connection_info());
    const std::vector<Transfer*> transfers = flight(*b);
    Transfer* small = b->prepare(Operation::write, 64);
    Words wanted, got;
    for (int i = 0; i < 40; ++i) {
        const std::string message = std::to_string(i) + std::string(i % 10 ? 0 : 20'000, 'x');
        ASSERT_NE(engine_->post(*small, &message), Status::remote_disconnect);
        ASSERT_EQ(wait(*small), Status::ok);
        wanted.push_back("alpha:" + message);
    }
    run_all(transfers);
    EXPECT_TRUE(b->same_bytes());
    const auto take = [&] {
        for (std::string& message : b->process->notifications())
            got.push_back(std::move(message));
        return got.size() >= wanted.size();
    };
    EXPECT_TRUE(until(take));
    drive(milliseconds(100));
    take();
    std::sort(got.begin(), got.end());
    std::sort(wanted.begin(), wanted.end());
    EXPECT_TRUE(got == wanted) << got.size() << " notifications instead of " << wanted.size();
    const Wire::Counts counts = wire.counts();
    std::fprintf(stderr, "%llu packets carried, %llu lost, %llu overtaken\n",
                 static_cast<unsigned long long>(counts.carried),
                 static_cast<unsigned long long>(counts.lost),
                 static_cast<unsigned long long>(counts.overtaken));
    EXPECT_GT(counts.lost + counts.overtaken, counts.carried / 50);
    EXPECT_EQ(report_of("b").failed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Weathers, BadWire,
                         testing::Values(Weather{"some_loss", {0.05, 0}, true},
                                         Weather{"much_loss", {0.1, 0}, false},
                                         Weather{"out_of_order", {0.01, 0.2}, true}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace railyard::test
