#include "tools/live_rates.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"
#include "tools/live_view.h"

namespace railyard::tools {
namespace {

/// An engine with one rail and one peer, both counted, as it was at second 100.
LiveFile first_look() {
    LiveFile file{"/run/x.prom", {"1.0", "near", 7, "tcp", 12, 100'000}};
    RailReport& rail = file.report.rails.emplace_back();
    rail.name = "rail0";
    rail.senders_replaced = 3;
    rail.traffic.emplace().bytes_written = 1'000'000;
    PeerReport& peer = file.report.peers.emplace_back();
    peer.agent = "far";
    peer.nonce = 9;
    peer.traffic.emplace().transfers_read = 50;
    peer.traffic->read_latency.counts[3] = 50;
    return file;
}

TEST(LiveView, LongLatenciesAreWrittenOut) {
    LiveFile file = first_look();
    LatencyCounts& latency = file.report.peers.front().traffic->read_latency;
    latency = {};
    latency.counts[13] = 1;  // 4.2 to 8.4 ms
    EXPECT_NE(live_text({file}, 100'000).find("6291, 8347 us"), std::string::npos)
        << live_text({file}, 100'000);
}

TEST(LiveView, ARailThatCrawlsIsSeen) {
    LiveFile file = first_look();
    file.report.rails.push_back(file.report.rails.front());
    file.report.rails.back().name = "rail1";
    file.report.rails.back().crawls = 1;
    const auto json = nlohmann::json::parse(live_json({file}, 100'000)).at("engines").at(0).at("rails");
    EXPECT_EQ(json.at(0).at("crawls"), false);
    EXPECT_EQ(json.at(1).at("crawls"), true);
    const std::string text = live_text({file}, 100'000);
    const auto row_of = [&](const std::string& rail) {
        const std::size_t at = text.find(rail);
        return text.substr(at, text.find('\n', at) - at);
    };
    EXPECT_NE(text.find("crawls"), std::string::npos) << text;
    EXPECT_EQ(row_of("rail0").find("yes"), std::string::npos) << text;
    EXPECT_NE(row_of("rail1").find("yes"), std::string::npos) << text;
}

TEST(LiveRates, CountersAreADifferenceASecondAndStatesAreThoseOfTheSecondLook) {
    const LiveFile before = first_look();
    LiveFile after = before;
    after.report.written_ms += 2500;
    RailReport& rail = after.report.rails[0];
    rail.load = 5;
    rail.traffic->bytes_written += 10'000;
    rail.traffic->failovers = 1;
    rail.traffic->registered_bytes = 4096;
    PeerReport& peer = after.report.peers[0];
    peer.state = PeerState::suspect;
    peer.paths = 4;
    peer.traffic->transfers_read += 5;
    peer.traffic->read_latency.counts[3] += 2;
    peer.traffic->read_latency.counts[9] = 1;
    const LiveFile rates = rates_between(before, after);
    EXPECT_EQ(rates.interval_ms, 2500u);
    const RailReport& on_rail = rates.report.rails.at(0);
    EXPECT_EQ(on_rail.load, 5u);
    EXPECT_EQ(on_rail.senders_replaced, 0u);
    EXPECT_EQ(on_rail.traffic->bytes_written, 4000u);
    EXPECT_EQ(on_rail.traffic->bytes_read, 0u);
    EXPECT_EQ(on_rail.traffic->failovers, 1u) << "0.4 a second is not none";
    EXPECT_EQ(on_rail.traffic->registered_bytes, 4096u);
    const PeerReport& with_peer = rates.report.peers.at(0);
    EXPECT_EQ(with_peer.state, PeerState::suspect);
    EXPECT_EQ(with_peer.paths, 4u);
    EXPECT_EQ(with_peer.traffic->transfers_read, 2u);
    EXPECT_EQ(with_peer.traffic->read_latency.count(), 3u);
}

TEST(LiveRates, WhatIsNewOrBeginsAgainCountsFromNothing) {
    LiveFile before = first_look();
    LiveFile after = before;
    after.report.written_ms += 1000;
    after.report.rails[0].traffic->bytes_written = 600;
    after.report.peers[0].nonce = 10;  // it has been started anew
    after.report.peers.push_back({"other", 11, PeerState::ready, 1, 0, {}});
    LiveFile rates = rates_between(before, after);
    EXPECT_EQ(rates.report.rails[0].traffic->bytes_written, 600u);
    EXPECT_EQ(rates.report.peers[0].traffic->transfers_read, 50u);
    EXPECT_FALSE(rates.report.peers[1].traffic);
    before.report.peers[0].traffic.reset();
    before.report.rails.clear();
    after.report.peers[0].nonce = 9;
    rates = rates_between(before, after);
    EXPECT_EQ(rates.report.peers[0].traffic->transfers_read, 50u);
    EXPECT_EQ(rates.report.rails[0].senders_replaced, 3u);
}

TEST(LiveRates, TwoLooksMustBeAtOneEngineAndNotAtTheSameTime) {
    const LiveFile before = first_look();
    const auto refused = [&](const LiveFile& after, const std::string& word) {
        try {
            static_cast<void>(rates_between(before, after));
            ADD_FAILURE() << "no error";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("/run/x.prom"), std::string::npos) << error.what();
        }
    };
    refused(before, "--interval");
    LiveFile after = before;
    after.report.written_ms += 1000;
    after.report.nonce = 8;
    refused(after, "another engine");
}

}  // namespace
}  // namespace railyard::tools
