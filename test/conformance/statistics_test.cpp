// What engines count of their rails and peers.
#include "engine/transfer.h"
#include "least_of.h"
#include "log_lines.h"
#include "stats_directory.h"

namespace railyard::test {
namespace {

class StatisticsTest : public testing::TestWithParam<Fabric> {
  protected:
    /// `count` pieces of `length`, side by side.
    Transfer* prepare(Operation operation, std::size_t count, std::size_t length,
                      std::optional<std::string_view> notification = std::nullopt) {
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back(source_.local(i * length, length));
            to.push_back({target_.address() + i * length, length, &remote_});
        }
        return pair_.a->prepare(operation, from, to, "beta", notification);
    }
    void run(Transfer& transfer, int rounds) {
        for (int i = 0; i < rounds; ++i)
            ASSERT_EQ(pair_.run(transfer), Status::ok);
    }
    LiveReport report_of(const std::string& agent) { return stats_.read_anew(agent, pair_); }
    /// Of alpha towards beta.
    PeerTrafficReport traffic() { return traffic_with(report_of("alpha"), "beta"); }

    static constexpr std::size_t size = 4 << 20;
    StatsDirectory stats_;
    EnginePair pair_{GetParam(), GetParam(), stats_.params()};
    Buffer source_{*pair_.a, size}, target_{*pair_.b, size};
    const std::shared_ptr<RemoteRegion> remote_ = pair_.publish(target_);
};

TEST_P(StatisticsTest, EveryTransferAndByteIsCountedOnce) {
    Transfer* blocks = prepare(Operation::write, 100, 2000);  // too long for messages
    Transfer* large = prepare(Operation::write, 1, size);
    Transfer* back = prepare(Operation::read, 3, 5000);
    run(*blocks, 5);
    run(*large, 3);
    run(*back, 9);
    const std::uint64_t written = 5 * 100 * 2000 + 3 * size, read = 9 * 3 * 5000;
    const auto expect_all = [&](const LiveReport& report) {
        const PeerTrafficReport beta = traffic_with(report, "beta");
        EXPECT_EQ(beta.transfers_written, 8u);
        EXPECT_EQ(beta.transfers_read, 9u);
        EXPECT_EQ(beta.bytes_written, written);
        EXPECT_EQ(beta.bytes_read, read);
        EXPECT_EQ(beta.disconnected + beta.canceled + beta.failed, 0u);
        EXPECT_EQ(beta.path_failures + beta.failovers + beta.repeats, 0u);
        EXPECT_EQ(sum(report, &RailTrafficReport::bytes_written), written);
        EXPECT_EQ(sum(report, &RailTrafficReport::bytes_read), read);
        EXPECT_EQ(sum(report, &RailTrafficReport::reads), 9u * 3);
        EXPECT_GE(sum(report, &RailTrafficReport::writes), 5u * 100 + 3);
        EXPECT_EQ(sum(report, &RailTrafficReport::failovers), 0u);
        EXPECT_EQ(sum(report, &RailTrafficReport::disconnected) + sum(report, &RailTrafficReport::failed),
                  0u);
    };
    expect_all(report_of("alpha"));
    for (Transfer* transfer : {blocks, large, back})
        pair_.a->release(transfer);
    expect_all(report_of("alpha"));  // what has gone still counts
    const LiveReport there = report_of("beta");
    EXPECT_EQ(sum(there, &RailTrafficReport::writes) + sum(there, &RailTrafficReport::reads), 0u);
}

TEST_P(StatisticsTest, LatenciesAreOfEveryLargeTransferAndOfOneInEightOthers) {
    Transfer* small = prepare(Operation::write, 1, 8);
    Transfer* large = prepare(Operation::read, 1, 256 << 10);
    run(*small, 33);
    run(*large, 7);
    const PeerTrafficReport beta = traffic();
    EXPECT_EQ(beta.write_latency.count(), 5u);  // rounds 1, 9, 17, 25 and 33
    EXPECT_EQ(beta.read_latency.count(), 7u);
    EXPECT_GT(beta.write_latency.sum_ns, 5u * 100);
    EXPECT_LT(beta.read_latency.sum_ns, 60'000'000'000u);
    EXPECT_LE(beta.read_latency.percentile_ns(0.5), static_cast<double>(beta.read_latency.sum_ns) * 2);
    for (Transfer* transfer : {small, large})
        pair_.a->release(transfer);
}

TEST_P(StatisticsTest, ARoundThatNobodyAskedAboutIsCountedAtTheNextPostOrTheEnd) {
    Transfer* transfer = prepare(Operation::write, 1, 100);
    run(*transfer, 1);
    const auto post_unseen = [&] {
        if (pair_.a->post(*transfer) == Status::in_progress) {
            ASSERT_TRUE(pair_.until([&] { return transfer->done(); }));
        }
    };
    post_unseen();
    post_unseen();
    pair_.a->release(transfer);
    EXPECT_EQ(traffic().transfers_written, 3u);
}

TEST_P(StatisticsTest, NotificationsAreCountedOnBothSides) {
    Transfer* transfer = prepare(Operation::write, 1, 100, "with data");
    run(*transfer, 3);
    for (int i = 0; i < 4; ++i)
        pair_.a->send_notification("beta", std::string(20'000, 'n'));
    EXPECT_EQ(pair_.notifications(7).size(), 7u);
    const LiveReport here = report_of("alpha"), there = report_of("beta");
    EXPECT_EQ(traffic_with(here, "beta").notifications_sent, 7u);
    EXPECT_EQ(traffic_with(here, "beta").notifications_received, 0u);
    EXPECT_EQ(traffic_with(there, "alpha").notifications_received, 7u);
    EXPECT_EQ(traffic_with(there, "alpha").notifications_sent, 0u);
    EXPECT_EQ(traffic_with(there, "alpha").transfers_written, 0u);
    EXPECT_GE(sum(here, &RailTrafficReport::fragments_sent), 3u + 4 * 3);
    EXPECT_GE(sum(here, &RailTrafficReport::control_bytes_sent), 4u * 20'000);
    EXPECT_GE(sum(there, &RailTrafficReport::fragments_received), 3u + 4 * 3);
    EXPECT_GE(sum(there, &RailTrafficReport::control_bytes_received), 4u * 20'000);
    pair_.a->release(transfer);
}

TEST_P(StatisticsTest, RegisteredMemoryIsThatOfNow) {
    const auto on_rails = [&] { return sum(report_of("alpha"), &RailTrafficReport::registered_bytes); };
    const std::uint64_t before = on_rails();
    EXPECT_EQ(before, size * pair_.a->rail_count());
    {
        const Buffer more(*pair_.a, 1000);
        EXPECT_EQ(on_rails(), before + 1000 * pair_.a->rail_count());
        pair_.a->deregister_memory(more.region);
    }
    EXPECT_EQ(on_rails(), before);
}

TEST_P(StatisticsTest, ARefusedPostIsAnErrorAndNoTransfer) {
    Transfer* transfer = prepare(Operation::write, 1, 100);
    run(*transfer, 2);
    pair_.a->deregister_memory(source_.region);
    EXPECT_EQ(pair_.a->post(*transfer), Status::invalid_param);
    const PeerTrafficReport beta = traffic();
    EXPECT_EQ(beta.transfers_written, 2u);
    EXPECT_EQ(beta.bytes_written, 200u);
    EXPECT_EQ(beta.disconnected + beta.canceled, 0u);
    EXPECT_EQ(beta.failed, 1u);
    pair_.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StatisticsTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 2, true}, Fabric{"shm", 2, false}})),
                         fabric_name);

class StatsSocketTest : public testing::TestWithParam<Fabric> {};

/// Of an engine that somebody drives, within a second.
TEST_P(StatsSocketTest, WhoConnectsIsAnswered) {
    const StatsDirectory stats;
    const std::string alpha = stats.socket("alpha");
    {
        EnginePair pair(GetParam(), GetParam(), stats.params());
        Buffer source(*pair.a, 4096), target(*pair.b, 4096);
        const auto remote = pair.publish(target);
        const LocalDescriptor from = source.local(0, 4096);
        const RemoteDescriptor to{target.address(), 4096, &remote};
        Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        for (const char* request : {"", "GET /metrics HTTP/1.1\r\n\r\n"}) {
            std::string text;
            const auto ask = [&] {
                const auto start = std::chrono::steady_clock::now();
                UnixClient client(alpha);
                EXPECT_TRUE(client.connected());
                client.say(request);
                if (GetParam().progress_thread) {
                    client.hear(5000);
                } else {
                    EXPECT_TRUE(pair.until([&] { return client.hear(), client.ended(); }));
                }
                text = client.hear();
                return std::chrono::steady_clock::now() - start;
            };
            EXPECT_LT(least_of(std::chrono::seconds(1), ask), std::chrono::seconds(1)) << request;
            EXPECT_EQ(text.starts_with("HTTP/1.0 200"), *request != '\0');
            if (*request) text.erase(0, text.find("\r\n\r\n") + 4);
            const LiveReport report = parse_live_report(text);
            EXPECT_EQ(report.agent, "alpha");
            EXPECT_EQ(traffic_with(report, "beta").transfers_written, 1u);
            EXPECT_EQ(sum(report, &RailTrafficReport::bytes_written), 4096u);
        }
        pair.a->release(transfer);
        expect_error(Status::not_allowed, "alpha.sock",
                     [&] { make_engine("alpha", GetParam(), stats.params()); });
        EXPECT_TRUE(UnixClient(alpha).connected()) << "it does not listen any more";
    }
    EXPECT_FALSE(std::filesystem::exists(alpha));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StatsSocketTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 2, true},
                                                    Fabric{"shm", 1, true}})),
                         fabric_name);

/// Also those of handles that nobody has released.
TEST(Statistics, WithoutASettingTheLogHasThePeersTotals) {
    const LogLines lines(log::Level::info);
    {
        const Fabric fabric{"tcp", 2, false};
        EnginePair pair(fabric, fabric, {{"log_level", "info"}});
        Buffer source(*pair.a, 4096), target(*pair.b, 4096);
        const auto remote = pair.publish(target);
        const LocalDescriptor local = source.local(0, 4096);
        const RemoteDescriptor there{target.address(), 4096, &remote};
        Transfer* write = pair.a->prepare(Operation::write, {&local, 1}, {&there, 1}, "beta", "with data");
        Transfer* read = pair.a->prepare(Operation::read, {&local, 1}, {&there, 1}, "beta", std::nullopt);
        for (Transfer* transfer : {write, read, write, write})
            ASSERT_EQ(pair.run(*transfer), Status::ok);
        pair.a->release(write);
        pair.a->deregister_memory(source.region);
        EXPECT_EQ(pair.a->post(*read), Status::invalid_param);
        EXPECT_EQ(lines.count("forgotten"), 0);
    }
    const auto text = lines.all();
    const auto line = std::find_if(text.begin(), text.end(), [](const std::string& one) {
        return one.find("forgotten") != std::string::npos;
    });
    ASSERT_NE(line, text.end());
    EXPECT_NE(line->find("beta: forgotten, after 3 writes of 12288 bytes, 1 read of 4096, 3 notifications to "
                         "it, and 1 error"),
              std::string::npos)
        << *line;
    EXPECT_EQ(lines.count("forgotten"), 1) << "beta has done nothing";
}

/// tcp says when nobody is there any more.
TEST(Statistics, APeerThatGoesLeavesErrorsBehind) {
    const StatsDirectory stats;
    const Fabric fabric{"tcp", 1, false};
    ParamMap params = stats.params();
    params["peer_timeout_ms"] = "1000";
    EnginePair pair(fabric, fabric, params);
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, 4096);
    const RemoteDescriptor to{target.address(), 4096, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.b.reset();
    EXPECT_EQ(pair.run(*transfer), Status::remote_disconnect);
    const LiveReport report = stats.read_anew("alpha", pair);
    const PeerTrafficReport beta = traffic_with(report, "beta");
    EXPECT_EQ(beta.transfers_written, 1u);
    EXPECT_EQ(beta.disconnected, 1u);
    EXPECT_EQ(beta.canceled + beta.failed, 0u);
    EXPECT_GE(beta.path_failures, 1u);
    EXPECT_EQ(sum(report, &RailTrafficReport::writes), 1u);
    EXPECT_EQ(sum(report, &RailTrafficReport::bytes_written), 4096u);
    EXPECT_GE(sum(report, &RailTrafficReport::disconnected) + sum(report, &RailTrafficReport::refusals), 1u);
    pair.a->release(transfer);
}

}  // namespace
}  // namespace railyard::test
