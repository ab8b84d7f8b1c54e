#include "slice.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <deque>
#include <span>

namespace railyard::bench {
namespace {

/// Ends the oldest transfer at every `every`-th harvest; 0: never.
class ScriptedDriver {
  public:
    explicit ScriptedDriver(unsigned every) : every_(every) {}
    void post(unsigned slot) {
        for (unsigned other : outstanding_)
            EXPECT_NE(other, slot) << "posted while outstanding";
        outstanding_.push_back(slot);
        most_ = std::max(most_, outstanding_.size());
    }
    std::span<const unsigned> harvest() {
        done_.clear();
        if (every_ != 0 && ++calls_ % every_ == 0 && !outstanding_.empty()) {
            done_.push_back(outstanding_.front());
            outstanding_.pop_front();
        }
        return done_;
    }
    [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
    [[nodiscard]] std::size_t most() const { return most_; }

  private:
    unsigned every_;
    unsigned calls_ = 0;
    std::size_t most_ = 0;
    std::deque<unsigned> outstanding_;
    std::vector<unsigned> done_;
};

class SliceTest : public testing::Test {
  protected:
    ~SliceTest() override { disarm_watchdog(); }
};

TEST_F(SliceTest, CountsIterationsAndKeepsTheWindow) {
    ScriptedDriver driver(3);
    SliceLimits limits{.window = 4, .iterations = 1001, .seconds = 0, .timeout = std::chrono::seconds(10)};
    limits.time_posts = true;
    SliceResult result = SliceLoop(driver, limits, "test").run();
    EXPECT_EQ(result.transfers, 1001u);
    EXPECT_EQ(result.latency.count(), 1001u);
    EXPECT_EQ(result.post.count(), 1001u);
    EXPECT_EQ(driver.outstanding(), 0u);
    EXPECT_EQ(driver.most(), 4u);
    EXPECT_EQ(result.posts, (std::vector<std::uint64_t>{251, 250, 250, 250}));
    EXPECT_GT(result.seconds, 0);
}

TEST_F(SliceTest, FewerIterationsThanWindow) {
    ScriptedDriver driver(1);
    SliceResult result =
        SliceLoop(driver, SliceLimits{.window = 8, .iterations = 3, .timeout = std::chrono::seconds(10)},
                  "test")
            .run();
    EXPECT_EQ(result.transfers, 3u);
    EXPECT_EQ(driver.most(), 3u);
}

TEST_F(SliceTest, TimeEndsIt) {
    ScriptedDriver driver(1);
    SliceResult result =
        SliceLoop(driver, SliceLimits{.window = 2, .seconds = 0.01, .timeout = std::chrono::seconds(10)},
                  "test")
            .run();
    EXPECT_GT(result.transfers, 2u);
    EXPECT_GE(result.seconds, 0.009);
    EXPECT_EQ(driver.outstanding(), 0u);
}

TEST_F(SliceTest, StallIsToldWithWhatAndHowMany) {
    ScriptedDriver driver(0);
    SliceLimits limits{.window = 2, .iterations = 10, .timeout = std::chrono::milliseconds(20)};
    try {
        SliceLoop(driver, limits, "ours write of 8").run();
        FAIL() << "no stall was seen";
    } catch (const Failure& failure) {
        std::string text = failure.what();
        EXPECT_NE(text.find("stalled: ours write of 8"), std::string::npos) << text;
        EXPECT_NE(text.find("2 outstanding"), std::string::npos) << text;
    }
}

TEST(WatchdogDeathTest, SaysWhatIsStuck) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto get_stuck = [](sighandler_t on_sigterm) {
        signal(SIGTERM, on_sigterm);
        set_last_document(STDERR_FILENO, R"({"version":1)");
        arm_watchdog(std::chrono::milliseconds(20), "a \"call\"");
        for (;;)
            pause();  // ThreadSanitizer delivers no signal into an empty loop
    };
    const std::string told =
        "stuck in a \"call\".*\n.\"version\":1,\"error\":\"stuck in a 'call': it did not come back within "
        "0.0 s; see "
        "--timeout\".\n";
    EXPECT_EXIT(get_stuck(SIG_DFL), testing::ExitedWithCode(1), told);
    // As libfabric has one, which cleans up and passes it on.
    const sighandler_t cleans_up = [](int number) {
        static_cast<void>(write(STDERR_FILENO, "clean", 5));
        signal(number, SIG_DFL);
        raise(number);
    };
    EXPECT_EXIT(get_stuck(cleans_up), testing::ExitedWithCode(1), told + "clean");
}

}  // namespace
}  // namespace railyard::bench
