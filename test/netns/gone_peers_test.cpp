// Peers that have gone, or were left, behind a link that fails.
#include <signal.h>

#include <algorithm>

#include "net_faults.h"

namespace railyard::test {
namespace {

using Disconnected = NetFaults;

/// The kernel keeps what it could not send, and would send it then.
TEST_F(Disconnected, UnderASmallWriteBehindADeadLinkNothingOfItComesOnceTheLinkIsBack) {
    start("e1", false);
    const auto b = peer("b");
    b->process->load("alpha", engine_->connection_info());
    Transfer* const small = b->prepare(Operation::write, 64, 0, "before");
    EXPECT_TRUE(until([&] { return run(*small) != Status::ok || small->eagerly; }));
    ASSERT_TRUE(small->eagerly) << "it never goes as a message";
    const std::uint32_t before = b->process->checksum(0);

    Trouble trouble(Fault::black_hole, 1);
    trouble.strike();
    fill_pattern(b->near->bytes, 9);
    const std::string late = "late";
    ASSERT_EQ(engine_->post(*small, &late), Status::in_progress);
    ASSERT_TRUE(small->eagerly);
    drive(milliseconds(20));  // the kernel has it
    engine_->disconnect("b");
    EXPECT_EQ(wait(*small), Status::remote_disconnect);
    trouble.mend();
    drive(milliseconds(2 * patience_ms));  // what TCP has not sent it sends again meanwhile
    const Words told = b->process->notifications();
    EXPECT_EQ(std::count(told.begin(), told.end(), "alpha:" + late), 0) << "of a transfer that has failed";
    EXPECT_GT(told.size(), 0u) << "of those before";
    EXPECT_EQ(b->process->checksum(0), before) << "written to after the error";
}

using Killed = NetFaults;

TEST_F(Killed, BehindADeadLinkIsFoundOutWithTransfersInFlight) {
    start("e1", false);
    const auto b = peer("b");
    const std::vector<Transfer*> transfers = flight(*b);
    run_all(transfers);
    Trouble trouble(Fault::black_hole, 1);
    auto struck = std::async(std::launch::async, [&] {
        trouble.strike();
        b->process->send_signal(SIGKILL);
        return Clock::now();
    });
    Course nobody;
    const Course course = pump(transfers, {}, struck, nobody);
    EXPECT_EQ(course.errors, (std::map<Status, int>{{Status::remote_disconnect, 4}}));
    EXPECT_LT(course.last_end, milliseconds(3 * patience_ms))
        << patience_ms << " ms and a little are promised";
    std::fprintf(stderr, "errors within %lld ms\n", static_cast<long long>(course.last_end.count()));
}

TEST_F(Killed, BehindADeadLinkIsFoundOutIdle) {
    start("e1", true, {{"keepalive_ms", "200"}});
    const auto b = peer("b");
    Transfer* transfer = b->prepare(Operation::write, flight_size);
    ASSERT_EQ(run(*transfer), Status::ok);
    EXPECT_TRUE(until([&] { return state_of("b") == PeerState::ready; }));
    Trouble trouble(Fault::black_hole, 1);
    trouble.strike();
    b->process->send_signal(SIGKILL);
    const auto killed = Clock::now();
    EXPECT_TRUE(until([&] { return state_of("b") != PeerState::ready; }, std::chrono::seconds(8)));
    std::fprintf(stderr, "found out after %lld ms\n", static_cast<long long>(since(killed).count()));
    EXPECT_LT(since(killed), milliseconds(4 * patience_ms));
    const auto posted = Clock::now();
    EXPECT_EQ(run(*transfer), Status::remote_disconnect);
    EXPECT_LT(since(posted), milliseconds(3 * patience_ms));
}

}  // namespace
}  // namespace railyard::test
