#include "rail/local_rail.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

TEST(LocalRail, CopiesABoundedPieceARound) {
    constexpr std::size_t chunk = 1 << 20;
    constexpr std::size_t chunks = 20;
    std::vector<char> from(chunk * chunks, 'x');
    std::vector<char> to(from.size(), '.');
    Work work;
    for (std::size_t i = 0; i < chunks; ++i) {
        work.chunks.push_back({reinterpret_cast<std::uint64_t>(from.data() + i * chunk),
                               reinterpret_cast<std::uint64_t>(to.data() + i * chunk), chunk, 0, 0});
    }
    LocalRail rail;
    work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(chunks));
    work.lanes.front().run_length = 1;
    const Route route{&rail, 0, nullptr, false, {}, {}};
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &route;
    work.arm(1, nullptr);
    rail.submit(submission);
    EXPECT_FALSE(work.done());
    EXPECT_TRUE(rail.has_work());
    int rounds = 1;
    while (!work.done() && rounds < 100) {
        EXPECT_EQ(rail.progress(), Rail::Progress::worked);
        ++rounds;
    }
    EXPECT_GE(rounds, 4);
    EXPECT_TRUE(to == from);
    EXPECT_EQ(rail.progress(), Rail::Progress::idle);
    EXPECT_FALSE(rail.has_work());
}

}  // namespace
}  // namespace railyard
