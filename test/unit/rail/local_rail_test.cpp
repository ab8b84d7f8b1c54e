#include "rail/local_rail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace railyard {
namespace {

constexpr std::size_t chunk = 1 << 20;
constexpr std::size_t chunks = 20;

/// One lane of chunks, on its way through a rail of its own.
class LocalRailTest : public testing::Test {
  protected:
    void submit(std::uint32_t run_length) {
        for (std::size_t i = 0; i < chunks; ++i) {
            work_.chunks.push_back({reinterpret_cast<std::uint64_t>(from_.data() + i * chunk),
                                    reinterpret_cast<std::uint64_t>(to_.data() + i * chunk), chunk, 0, 0});
        }
        work_.lanes.emplace_back(work_, 0, static_cast<std::uint32_t>(chunks));
        work_.lanes.front().run_length = run_length;
        submission_.lane = &work_.lanes.front();
        submission_.route = &route_;
        work_.arm(1, nullptr);
        rail_.submit(submission_);
    }

    std::vector<char> from_ = std::vector<char>(chunk * chunks, 'x');
    std::vector<char> to_ = std::vector<char>(chunk * chunks, '.');
    Work work_;
    LocalRail rail_;
    const Route route_{&rail_, 0, nullptr, false, {}, {}};
    Submission submission_;
};

TEST_F(LocalRailTest, CopiesABoundedPieceARound) {
    submit(1);
    EXPECT_FALSE(work_.done());
    EXPECT_TRUE(rail_.has_work());
    int rounds = 1;
    while (!work_.done() && rounds < 100) {
        EXPECT_EQ(rail_.progress(), Rail::Progress::worked);
        ++rounds;
    }
    EXPECT_GE(rounds, 4);
    EXPECT_TRUE(to_ == from_);
    EXPECT_EQ(rail_.progress(), Rail::Progress::idle);
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(LocalRailTest, CopiesNoMoreOfWhatWasStopped) {
    submit(4);
    ASSERT_FALSE(work_.done());
    work_.stop(Status::canceled);
    std::fill(to_.begin(), to_.end(), '.');
    for (int round = 0; !work_.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(work_.status(), Status::canceled);
    EXPECT_EQ(std::count(to_.begin(), to_.end(), '.'), static_cast<std::ptrdiff_t>(to_.size()));
    EXPECT_FALSE(rail_.has_work());
}

}  // namespace
}  // namespace railyard
