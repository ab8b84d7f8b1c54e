// What engines count of NICs that fail and refuse, beside what the NICs say themselves.
#include "failover.h"
#include "stats_directory.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

/// With statistics of both, and calm NICs that tell what they saw.
class Counted : public Failover {
  protected:
    Counted() : Failover(4, stats().params()) {}
    ~Counted() override { kept_.reset(); }

    /// The base's constructor needs it, too.
    static StatsDirectory& stats() {
        if (!kept_) kept_ = std::make_unique<StatsDirectory>();
        return *kept_;
    }
    LiveReport report() {
        return stats().read_anew("alpha", [&] { drive(milliseconds(1)); });
    }
    static inline std::unique_ptr<StatsDirectory> kept_;
};

TEST_P(Counted, WhatAFailedRailLeftToOthersIsCountedAsSuch) {
    warm_up();
    Transfer* transfer = prepare();
    ASSERT_EQ(run(*transfer), Status::ok);
    const LiveReport before = report();
    EXPECT_EQ(sum(before, &RailTrafficReport::failovers) + sum(before, &RailTrafficReport::disconnected), 0u);
    cluster().set("error_code=13", first_of_a);
    cluster().set("error_next=3", first_of_a);  // a probe may be among them
    const Growth errors("errors", first_of_a);
    ASSERT_EQ(run(*transfer), Status::ok);
    const LiveReport after = report();
    const RailTrafficReport& failed = *after.rails.at(0).traffic;
    EXPECT_GE(failed.disconnected, 1u);
    EXPECT_LE(failed.disconnected + failed.control_errors, errors.value()) << "what the NIC has said";
    EXPECT_GE(failed.failovers, 1u);
    EXPECT_GE(after.rails[0].senders_replaced, 1u);
    for (std::size_t i = 1; i < after.rails.size(); ++i) {
        EXPECT_EQ(after.rails[i].traffic->failovers, 0u);
        EXPECT_EQ(after.rails[i].traffic->disconnected, 0u);
    }
    const PeerTrafficReport beta = traffic_with(after, "beta");
    EXPECT_EQ(beta.failovers, failed.failovers);
    EXPECT_GE(beta.path_failures, 1u);
    EXPECT_EQ(beta.disconnected + beta.canceled + beta.failed, 0u) << "the transfer has not failed";
    EXPECT_EQ(beta.transfers_written, 3u);
    EXPECT_EQ(beta.bytes_written, 3 * size);
    EXPECT_EQ(sum(after, &RailTrafficReport::bytes_written), 3 * size) << "each byte counts once";
    EXPECT_EQ(beta.repeats, sum(after, &RailTrafficReport::repeats));
    a_->release(transfer);
}

TEST_P(Counted, RefusedPostsAndRefusedFragmentsAreRetries) {
    warm_up();
    Transfer* transfer = prepare();
    const Growth refused("refused_posts");
    const std::uint64_t before = sum(report(), &RailTrafficReport::refusals);
    cluster().set("eagain_probability=0.5");
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(run(*transfer), Status::ok);
    cluster().set("eagain_probability=0");
    const LiveReport stormy = report(), there = stats().read_anew("beta", [&] { drive(milliseconds(1)); });
    EXPECT_GT(sum(stormy, &RailTrafficReport::refusals), before);
    std::uint64_t known = 0;
    for (const LiveReport* side : {&stormy, &there})
        known += sum(*side, &RailTrafficReport::refusals) + sum(*side, &RailTrafficReport::control_refusals);
    EXPECT_GE(known, refused.value()) << "what the NICs have said";
    a_->release(transfer);
    if (std::string(GetParam()) == "efa") return;  // whose protocol resends by itself
    const std::uint64_t resent = sum(stormy, &RailTrafficReport::control_repeats);
    cluster().set("rnr_next=1", first_of_a);
    a_->send_notification("beta", "again");
    std::vector<Notification> got;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (got.empty() && std::chrono::steady_clock::now() < end) {
        drive(milliseconds(1));
        b_->take_notifications(got);
    }
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(sum(report(), &RailTrafficReport::control_repeats), resent + 1);
    EXPECT_EQ(traffic_with(report(), "beta").notifications_sent, 1u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Counted, testing::Values("efa-direct", "efa"), efa_name);

}  // namespace
}  // namespace railyard::test
