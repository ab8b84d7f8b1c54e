// Several progress threads on a p5.48xlarge: who gets which rails, and that callers may rest.
#include <time.h>

#include <set>

#include "log_lines.h"
#include "own_threads.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

std::set<std::string> progress_threads() {
    std::set<std::string> names;
    for (const OwnThread& thread : own_threads("railyard-prog"))
        names.insert(thread.name);
    return names;
}

void expect_threads(const std::string& asked, const std::set<std::string>& names) {
    const Fabric with{"efa-direct", 32, true}, without{"efa-direct", 32, false};
    const EnginePair pair(with, without, {{"progress_threads", asked}});
    EXPECT_EQ(progress_threads(), names) << asked;
}

TEST(SeveralProgressThreads, AreAsManyAsNodesOrAsAsked) {
    expect_threads("1", {"railyard-prog"});
    expect_threads("auto", {"railyard-prog", "railyard-prog1"});
    expect_threads("3", {"railyard-prog", "railyard-prog1", "railyard-prog2"});
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!progress_threads().empty() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();  // one that was joined may be listed for a moment
    EXPECT_EQ(progress_threads(), std::set<std::string>{}) << "they end with their engine";
}

TEST(SeveralProgressThreads, HaveTheRailsOfANodeEach) {
    const LogLines log(log::Level::debug);
    expect_threads("auto", {"railyard-prog", "railyard-prog1"});
    EXPECT_TRUE(log.contain("progress thread 0: 17 rails of NUMA node 0, on "));  // and that to ourselves
    EXPECT_TRUE(log.contain("progress thread 1: 16 rails of NUMA node 1, on "));
}

TEST(SeveralProgressThreads, CarryEverythingWhileCallersRest) {
    const Fabric with{"efa-direct", 32, true};
    EnginePair pair(with, with, {{"progress_threads", "2"}, {"max_bw_per_dram_seg", "1000000"}});
    constexpr std::size_t size = std::size_t{16} << 20;
    Buffer source(*pair.a, size), target(*pair.b, size);
    fill_pattern(source.bytes, 7);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "done");
    for (int round = 0; round < 20; ++round) {
        std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
        Status status = pair.a->post(*transfer);
        const timespec rest{0, 1'000'000};
        for (int i = 0; i < 10'000 && status == Status::in_progress; ++i) {
            nanosleep(&rest, nullptr);
            status = pair.a->look(*transfer);  // makes no pass
        }
        ASSERT_EQ(status, Status::ok) << round;
        EXPECT_TRUE(target.bytes == source.bytes) << round;
        for (int i = 0; i < 10'000 && !pair.b->has_notifications(); ++i)
            nanosleep(&rest, nullptr);
        ASSERT_TRUE(pair.b->has_notifications()) << round;
        EXPECT_EQ(pair.notifications(1).size(), 1u);
    }
    pair.a->release(transfer);
}

}  // namespace
}  // namespace railyard::test
