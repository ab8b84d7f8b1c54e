#include "engine/live_report.h"

#include <gtest/gtest.h>

#include "common/status.h"

namespace railyard {
namespace {

LiveReport sample() {
    LiveReport report{"1.2.3", "alpha", 0xabc, "efa-direct", 4711, 1'700'000'000'045};
    report.rails = {{"rail0:rdmap79s0", 12, 1234567890123, 0, 0}, {"rail1:rdmap80s0", 0, 5, 1, 3}};
    report.peers = {{"beta", 0x0123456789abcdef, PeerState::ready, 4, 0},
                    {"beta", 5, PeerState::gone, 2, 2},
                    {"gamma", 5, PeerState::unknown}};
    return report;
}

std::string text_of(const LiveReport& report) {
    std::string text;
    to_prometheus(report, text);
    return text;
}

std::string refusal(const std::string& text) {
    try {
        static_cast<void>(parse_live_report(text));
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch);
        return error.what();
    }
    return "accepted";
}

void expect_same(const LiveReport& got, const LiveReport& wanted) {
    EXPECT_EQ(got.version, wanted.version);
    EXPECT_EQ(got.agent, wanted.agent);
    EXPECT_EQ(got.nonce, wanted.nonce);
    EXPECT_EQ(got.provider, wanted.provider);
    EXPECT_EQ(got.pid, wanted.pid);
    EXPECT_EQ(got.written_ms, wanted.written_ms);
    ASSERT_EQ(got.rails.size(), wanted.rails.size());
    for (std::size_t i = 0; i < wanted.rails.size(); ++i) {
        EXPECT_EQ(got.rails[i].name, wanted.rails[i].name);
        EXPECT_EQ(got.rails[i].load, wanted.rails[i].load);
        EXPECT_EQ(got.rails[i].bytes_carried, wanted.rails[i].bytes_carried);
        EXPECT_EQ(got.rails[i].crawls, wanted.rails[i].crawls);
        EXPECT_EQ(got.rails[i].senders_replaced, wanted.rails[i].senders_replaced);
    }
    ASSERT_EQ(got.peers.size(), wanted.peers.size());
    for (std::size_t i = 0; i < wanted.peers.size(); ++i) {
        EXPECT_EQ(got.peers[i].agent, wanted.peers[i].agent);
        EXPECT_EQ(got.peers[i].nonce, wanted.peers[i].nonce);
        EXPECT_EQ(got.peers[i].state, wanted.peers[i].state);
        EXPECT_EQ(got.peers[i].paths, wanted.peers[i].paths);
        EXPECT_EQ(got.peers[i].failed, wanted.peers[i].failed);
    }
}

TEST(LiveReport, IsPrometheusText) {
    LiveReport report = sample();
    report.rails.pop_back();
    report.peers.resize(1);
    EXPECT_EQ(text_of(report),
              R"(# HELP railyard_build_info Which Railyard writes this, where, and for which agent.
# TYPE railyard_build_info gauge
railyard_build_info{version="1.2.3",agent="alpha",instance="0000000000000abc",provider="efa-direct",pid="4711"} 1
# HELP railyard_written_timestamp_seconds When this was written, in seconds since 1970.
# TYPE railyard_written_timestamp_seconds gauge
railyard_written_timestamp_seconds{agent="alpha"} 1700000000.045
# HELP railyard_rail_load Operations and submissions on the rail, roughly.
# TYPE railyard_rail_load gauge
railyard_rail_load{agent="alpha",rail="rail0:rdmap79s0"} 12
# HELP railyard_rail_bytes_total Bytes that the rail has read and written.
# TYPE railyard_rail_bytes_total counter
railyard_rail_bytes_total{agent="alpha",rail="rail0:rdmap79s0"} 1234567890123
# HELP railyard_rail_crawls 1: it carries far less than the others with as much to do.
# TYPE railyard_rail_crawls gauge
railyard_rail_crawls{agent="alpha",rail="rail0:rdmap79s0"} 0
# HELP railyard_rail_senders_replaced_total Times that the rail's sender was replaced.
# TYPE railyard_rail_senders_replaced_total counter
railyard_rail_senders_replaced_total{agent="alpha",rail="rail0:rdmap79s0"} 0
# HELP railyard_peer_state The state that a peer is in: one line each, whose value is 1.
# TYPE railyard_peer_state gauge
railyard_peer_state{agent="alpha",peer="beta",instance="0123456789abcdef",state="ready"} 1
# HELP railyard_peer_paths Pairs of rails that have been used towards the peer.
# TYPE railyard_peer_paths gauge
railyard_peer_paths{agent="alpha",peer="beta",instance="0123456789abcdef"} 4
# HELP railyard_peer_paths_failed Of these, pairs that are left alone because they failed.
# TYPE railyard_peer_paths_failed gauge
railyard_peer_paths_failed{agent="alpha",peer="beta",instance="0123456789abcdef"} 0
# EOF
)");
}

TEST(LiveReport, IsReadAsItWasWritten) {
    expect_same(parse_live_report(text_of(sample())), sample());
    LiveReport empty = sample();
    empty.rails.clear();
    empty.peers.clear();
    expect_same(parse_live_report(text_of(empty)), empty);
}

TEST(LiveReport, EveryStateIsReadAsItWasWritten) {
    LiveReport report = sample();
    for (const PeerState state :
         {PeerState::unknown, PeerState::connecting, PeerState::ready, PeerState::suspect, PeerState::gone}) {
        report.peers[0].state = state;
        expect_same(parse_live_report(text_of(report)), report);
    }
}

TEST(LiveReport, NamesOfAllKindsSurvive) {
    LiveReport report = sample();
    report.agent = "quote\" back\\slash {brace} = , line\nend \\n \"";
    report.peers[0].agent = "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\\";
    report.peers[1].agent = "\n";
    report.rails[0].name = "} 1";
    const std::string text = text_of(report);
    expect_same(parse_live_report(text), report);
    EXPECT_NE(text.find(R"(agent="quote\" back\\slash {brace} = , line\nend \\n \"")"), std::string::npos);
}

/// They would spoil the file for every reader.
TEST(LiveReport, BytesThatNoLabelHoldsAreReplaced) {
    const std::string_view bad[] = {"\xff",
                                    "\x80",
                                    "\xc0\xaf",
                                    "\xe0\x80\xaf",
                                    "\xed\xa0\x80",
                                    "\xc3",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5",
                                    {"\0", 1},
                                    "\t",
                                    "\x7f",
                                    "\r",
                                    "\xe2\x82",
                                    "\xf0\x9f\x98",
                                    "\xc3\xc3"};
    for (const std::string_view bytes : bad) {
        LiveReport report = sample();
        report.agent = "a" + std::string(bytes) + "z";
        std::string wanted = "a";
        for (std::size_t i = 0; i < bytes.size(); ++i)
            wanted += "\xef\xbf\xbd";
        EXPECT_EQ(parse_live_report(text_of(report)).agent, wanted + "z") << testing::PrintToString(bytes);
    }
}

TEST(LiveReport, ItGoesBehindWhatIsThere) {
    std::string text = "# before\n\n";
    to_prometheus(sample(), text);
    EXPECT_TRUE(text.starts_with("# before\n\n# HELP"));
    expect_same(parse_live_report(text), sample());
}

TEST(LiveReport, UnknownMetricsArePassedOver) {
    expect_same(parse_live_report("railyard_new{any=\"thing\"} 1e9\nother 3\n" + text_of(sample())),
                sample());
}

TEST(LiveReport, WhatIsNoReportIsRefusedWithTheReason) {
    EXPECT_NE(refusal("").find("railyard_build_info"), std::string::npos);
    EXPECT_NE(refusal("# EOF\n").find("railyard_build_info"), std::string::npos);
    const std::string text = text_of(sample());
    for (std::size_t cut = 0; cut + 1 < text.size(); ++cut)
        EXPECT_NE(refusal(text.substr(0, cut)), "accepted") << cut;
    const std::pair<const char*, const char*> damages[] = {
        {"state=\"ready\"", "state=\"fine\""},
        {"paths{agent=\"alpha\",peer=\"beta\",instance=\"0123456789abcdef\"} 4",
         "paths{agent=\"alpha\",peer=\"beta\",instance=\"0123456789abcdef\"} four"},
        {"instance=\"0000000000000abc\"", "instance=\"00000000000000000abcdefgh\""},
        {"pid=\"4711\"", "process=\"4711\""},
        {"} 1700000000.045", "} -1"},
        {"} 1700000000.045", "} nan"},
        {"} 1700000000.045", "}"},
        {"{agent=\"alpha\"} 17", "{agent=\"alpha} 17"},
        {"{agent=\"alpha\"} 17", "{agent=alpha} 17"}};
    for (const auto& [old, fresh] : damages) {
        std::string damaged = text;
        damaged.replace(damaged.find(old), std::string(old).size(), fresh);
        EXPECT_NE(refusal(damaged).find("line "), std::string::npos) << fresh << ": " << refusal(damaged);
    }
}

}  // namespace
}  // namespace railyard
