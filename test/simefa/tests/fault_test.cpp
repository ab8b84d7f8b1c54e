// Faults, set while the NICs run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

class Fault : public testing::Test {
  protected:
    Fault() { control.set("timeout_ms=20"); }
    ~Fault() override { control.reset(); }
    Control control;
};

bool untouched(const Pair& pair) {
    return std::count(pair.target.begin(), pair.target.end(), 0) ==
           static_cast<std::ptrdiff_t>(pair.target.size());
}

TEST_F(Fault, EagainStormsEnd) {
    Pair pair;
    control.set("eagain_next=5");
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(pair.write(0, 8), -FI_EAGAIN);
    EXPECT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(control.counter("refused_posts"), 5U);
}

TEST_F(Fault, EagainWithAProbability) {
    Pair pair;
    control.set("eagain_probability=0.5");
    int refused = 0;
    for (int i = 0; i < 400; ++i) {
        if (pair.write(0, 8) == -FI_EAGAIN) {
            ++refused;
        } else {
            EXPECT_EQ(pair.wait_left().status, 0);
        }
    }
    EXPECT_GT(refused, 120);
    EXPECT_LT(refused, 280);
}

TEST_F(Fault, ErrorsByCode) {
    Pair pair;
    for (const int code : {1, 7, 8, 13, 15}) {
        control.set("error_code=" + std::to_string(code));
        control.set("error_next=1");
        ASSERT_EQ(pair.write(0, 8), 0);
        EXPECT_EQ(pair.wait_left().status, code);
        EXPECT_TRUE(untouched(pair));
    }
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(control.counter("errors"), 5U);
}

TEST_F(Fault, OneRailAlone) {
    Pair sick{{.nic = 0}, {.nic = 2}}, well{{.nic = 1}, {.nic = 3}};
    control.set("error_probability=1", {"*", nic_name(0)});
    ASSERT_EQ(sick.write(0, 8), 0);
    ASSERT_EQ(well.write(0, 8), 0);
    EXPECT_EQ(sick.wait_left().status, 13);
    EXPECT_EQ(well.wait_left().status, 0);
}

TEST_F(Fault, ReceiverNotReady) {
    Pair pair;
    control.set("rnr_next=1");
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data(), 8, fi_mr_desc(pair.source_region),
                      pair.to_right, nullptr),
              0);
    EXPECT_EQ(pair.left.wait().status, 10);
}

TEST_F(Fault, ALinkThatGoesDownTakesWhatIsInFlight) {
    control.set("latency_us=2000");
    for (const unsigned down : {0U, 1U}) {
        Pair pair{{.nic = 0}, {.nic = 1}};
        ASSERT_EQ(pair.write(0, 8), 0);
        control.set("link=down", {"*", nic_name(down)});
        const auto start = std::chrono::steady_clock::now();
        const Done done = pair.wait_left();
        EXPECT_EQ(done.status, 13);
        EXPECT_EQ(done.error, FI_ECONNABORTED);
        EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(15));
        EXPECT_TRUE(untouched(pair));
        control.set("link=up");
        ASSERT_EQ(pair.write(0, 8), 0);
        EXPECT_EQ(pair.wait_left().status, 0);
    }
}

TEST_F(Fault, ALinkThatComesBackInTimeDelivers) {
    control.set("timeout_ms=5000");
    Pair pair;
    control.set("link=down");
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_TRUE(pair.left.quiet_for(5));
    control.set("link=up");
    EXPECT_EQ(pair.wait_left(2000).status, 0);
}

TEST_F(Fault, ARemovedDeviceFlushesAndRefuses) {
    control.set("latency_us=100000");
    Pair pair;
    ASSERT_EQ(pair.write(0, 8), 0);
    control.set("gone=1");
    EXPECT_EQ(pair.left.wait(2000).status, 1);
    EXPECT_EQ(pair.write(0, 8), -FI_ENODEV);
    EXPECT_TRUE(untouched(pair));
}

TEST_F(Fault, LateBytesLandAfterTheError) {
    Pair pair;
    control.set("late_ms=5");
    control.set("late_next=1");
    ASSERT_EQ(pair.write(0, 64), 0);
    EXPECT_EQ(pair.left.wait().status, 13);
    EXPECT_TRUE(untouched(pair)) << "not late";
    EXPECT_TRUE(pair.left.quiet_for(30)) << "it completed twice";
    EXPECT_TRUE(std::equal(pair.target.begin(), pair.target.begin() + 64, pair.source.begin()));
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST_F(Fault, WithoutAnAnswerTheBytesAreThereAllTheSame) {
    Pair pair;
    control.set("lost_answer_next=1");
    ASSERT_EQ(pair.write(0, 64), 0);
    EXPECT_EQ(pair.left.wait().status, 13);
    EXPECT_TRUE(std::equal(pair.target.begin(), pair.target.begin() + 64, pair.source.begin()));
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST_F(Fault, ClosingTheEndpointStopsLateBytes) {
    Pair pair;
    control.set("late_ms=5");
    control.set("late_next=1");
    ASSERT_EQ(pair.write(0, 64), 0);
    EXPECT_EQ(pair.left.wait().status, 13);
    pair.left.close_endpoint();
    EXPECT_TRUE(pair.right.quiet_for(20));
    EXPECT_TRUE(untouched(pair));
}

}  // namespace
}  // namespace simefa::test
