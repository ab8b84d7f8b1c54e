#include "engine/live_report.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "common/status.h"
#include "engine/live_metrics.h"
#include "sanitized.h"

namespace railyard {
namespace live_report_test {

LiveReport sample() {
    LiveReport report{"1.2.3", "alpha", 0xabc, "efa-direct", 4711, 1'700'000'000'045};
    report.rails = {{"rail0:rdmap79s0", 12, 0, 0}, {"rail1:rdmap80s0", 0, 1, 3}};
    report.peers = {{"beta", 0x0123456789abcdef, PeerState::ready, 4, 0},
                    {"beta", 5, PeerState::gone, 2, 2},
                    {"gamma", 5, PeerState::unknown}};
    return report;
}

/// Another number in every figure, from 2^40 on.
LiveReport busy_sample() {
    LiveReport report = sample();
    std::uint64_t next = std::uint64_t{1} << 40;
    for (RailReport& rail : report.rails) {
        rail.traffic.emplace();
        for (const auto& metric : metrics::of_rail_traffic)
            (*rail.traffic).*metric.value = next++;
    }
    PeerTrafficReport& traffic = report.peers[1].traffic.emplace();
    for (const auto& metric : metrics::of_peer_traffic)
        traffic.*metric.value = next++;
    for (const metrics::Latency& latency : metrics::latencies) {
        for (std::uint64_t& in_bucket : (traffic.*latency.value).counts)
            in_bucket = next++ % 1000;
        (traffic.*latency.value).sum_ns = 5'000'000'000 + next++ % 1000;
    }
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

void expect_same(const PeerTrafficReport& got, const PeerTrafficReport& wanted) {
    for (const auto& metric : metrics::of_peer_traffic)
        EXPECT_EQ(got.*metric.value, wanted.*metric.value) << metric.name;
    for (const metrics::Latency& latency : metrics::latencies) {
        EXPECT_EQ((got.*latency.value).counts, (wanted.*latency.value).counts);
        EXPECT_EQ((got.*latency.value).sum_ns, (wanted.*latency.value).sum_ns);
    }
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
        EXPECT_EQ(got.rails[i].crawls, wanted.rails[i].crawls);
        EXPECT_EQ(got.rails[i].senders_replaced, wanted.rails[i].senders_replaced);
        ASSERT_EQ(got.rails[i].traffic.has_value(), wanted.rails[i].traffic.has_value());
        for (const auto& metric : metrics::of_rail_traffic) {
            if (!got.rails[i].traffic) break;
            EXPECT_EQ((*got.rails[i].traffic).*metric.value, (*wanted.rails[i].traffic).*metric.value)
                << metric.name;
        }
    }
    ASSERT_EQ(got.peers.size(), wanted.peers.size());
    for (std::size_t i = 0; i < wanted.peers.size(); ++i) {
        EXPECT_EQ(got.peers[i].agent, wanted.peers[i].agent);
        EXPECT_EQ(got.peers[i].nonce, wanted.peers[i].nonce);
        EXPECT_EQ(got.peers[i].state, wanted.peers[i].state);
        EXPECT_EQ(got.peers[i].paths, wanted.peers[i].paths);
        EXPECT_EQ(got.peers[i].failed, wanted.peers[i].failed);
        ASSERT_EQ(got.peers[i].traffic.has_value(), wanted.peers[i].traffic.has_value());
        if (got.peers[i].traffic) expect_same(*got.peers[i].traffic, *wanted.peers[i].traffic);
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
railyard_written_timestamp_seconds{agent="alpha",engine="0000000000000abc"} 1700000000.045
# HELP railyard_rail_load Operations and submissions on the rail, roughly.
# TYPE railyard_rail_load gauge
railyard_rail_load{agent="alpha",rail="rail0:rdmap79s0",engine="0000000000000abc"} 12
# HELP railyard_rail_crawls 1: it carries far less than the others with as much to do.
# TYPE railyard_rail_crawls gauge
railyard_rail_crawls{agent="alpha",rail="rail0:rdmap79s0",engine="0000000000000abc"} 0
# HELP railyard_rail_senders_replaced_total Times that the rail's sender was replaced.
# TYPE railyard_rail_senders_replaced_total counter
railyard_rail_senders_replaced_total{agent="alpha",rail="rail0:rdmap79s0",engine="0000000000000abc"} 0
# HELP railyard_peer_state The state that a peer is in: one line each, whose value is 1.
# TYPE railyard_peer_state gauge
railyard_peer_state{agent="alpha",peer="beta",instance="0123456789abcdef",engine="0000000000000abc",state="ready"} 1
# HELP railyard_peer_paths Pairs of rails that have been used towards the peer.
# TYPE railyard_peer_paths gauge
railyard_peer_paths{agent="alpha",peer="beta",instance="0123456789abcdef",engine="0000000000000abc"} 4
# HELP railyard_peer_paths_failed Of these, pairs that are left alone because they failed.
# TYPE railyard_peer_paths_failed gauge
railyard_peer_paths_failed{agent="alpha",peer="beta",instance="0123456789abcdef",engine="0000000000000abc"} 0
# HELP railyard_peer_on_host 1: its process is on this host, and the host rail writes and reads its memory.
# TYPE railyard_peer_on_host gauge
railyard_peer_on_host{agent="alpha",peer="beta",instance="0123456789abcdef",engine="0000000000000abc"} 0
# EOF
)");
}

TEST(LiveReport, FiguresOfOneNameStandTogetherUnderOneHead) {
    LiveReport report = busy_sample();
    report.rails[0].name = "r0";
    report.rails[1].name = "r1";
    const std::string text = text_of(report);
    const std::string wanted =
        R"(# HELP railyard_rail_operations_total Operations that ended well.
# TYPE railyard_rail_operations_total counter
railyard_rail_operations_total{agent="alpha",rail="r0",engine="0000000000000abc",operation="write"} 1099511627778
railyard_rail_operations_total{agent="alpha",rail="r0",engine="0000000000000abc",operation="read"} 1099511627779
railyard_rail_operations_total{agent="alpha",rail="r1",engine="0000000000000abc",operation="write"} )";
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    for (const char* name : {"railyard_rail_operations_total", "railyard_peer_transfer_seconds"}) {
        const std::string head = std::string("# TYPE ") + name + " ";
        EXPECT_NE(text.find(head), std::string::npos);
        EXPECT_EQ(text.find(head), text.rfind(head)) << name;
    }
}

/// A collector that finds one sample in two engines' files refuses all of them.
TEST(LiveReport, EnginesOfOneNameShareNoSample) {
    LiveReport other = busy_sample();
    ++other.nonce;
    std::istringstream lines(text_of(busy_sample()) + text_of(other));
    std::set<std::string> seen;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) continue;
        EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
    EXPECT_GT(seen.size(), 100u);
}

TEST(LiveReport, AHistogramIsOfGrowingBucketsInSeconds) {
    LiveReport report = sample();
    report.peers.resize(1);
    PeerTrafficReport& traffic = report.peers[0].traffic.emplace();
    traffic.write_latency.counts = {1, 0, 2};
    traffic.write_latency.counts.back() = 4;
    traffic.write_latency.sum_ns = 12'345'678'901;
    const std::string text = text_of(report);
    const std::string of =
        R"({agent="alpha",peer="beta",instance="0123456789abcdef",engine="0000000000000abc",operation="write")";
    for (const std::string& line :
         {"_bucket" + of + R"(,le="0.000001024"} 1)", "_bucket" + of + R"(,le="0.000002048"} 1)",
          "_bucket" + of + R"(,le="0.000004096"} 3)", "_bucket" + of + R"(,le="8.589934592"} 3)",
          "_bucket" + of + R"(,le="+Inf"} 7)", "_sum" + of + "} 12.345678901", "_count" + of + "} 7"})
        EXPECT_NE(text.find("\nrailyard_peer_transfer_seconds" + line + "\n"), std::string::npos) << line;
    EXPECT_EQ(text.find(R"(operation="read",le)"), std::string::npos) << "of which nothing was measured";
    expect_same(parse_live_report(text), report);
}

TEST(LiveReport, PrometheusOwnParserReadsIt) {
    LiveReport report = busy_sample();
    report.peers[1].agent = "quote\" back\\slash\nline";
    const std::string file = testing::TempDir() + "report-" + std::to_string(getpid()) + ".prom";
    std::ofstream(file) << text_of(report);
    const std::string script = RAILYARD_SOURCE_ROOT "/test/unit/engine/prometheus_reads.py";
    const int status = std::system(("/usr/bin/python3 -B " + script + " " + file).c_str());
    std::remove(file.c_str());
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no prometheus_client for /usr/bin/python3";
    EXPECT_EQ(status, 0);
}

/// Of an engine of the version before traffic was told of.
TEST(LiveReport, WhatAnEarlierVersionHasWrittenIsRead) {
    std::string text = text_of(sample());
    const std::string old = "railyard_rail_bytes_total{agent=\"alpha\",rail=\"rail0:rdmap79s0\"} 17\n";
    text.insert(text.find("# HELP railyard_rail_crawls"), old);
    expect_same(parse_live_report(text), sample());
}

TEST(LiveReport, IsReadAsItWasWritten) {
    expect_same(parse_live_report(text_of(sample())), sample());
    expect_same(parse_live_report(text_of(busy_sample())), busy_sample());
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
    const std::string text = text_of(busy_sample());
    for (std::size_t cut = 0; cut + 1 < text.size(); cut += test::sanitized ? 7 : 1)
        EXPECT_NE(refusal(text.substr(0, cut)), "accepted") << cut;
    const std::pair<const char*, const char*> damages[] = {
        {"state=\"ready\"", "state=\"fine\""},
        {"paths{agent=\"alpha\",peer=\"beta\",instance=\"0123456789abcdef\",engine=\"0000000000000abc\"} 4",
         "paths{agent=\"alpha\",peer=\"beta\",instance=\"0123456789abcdef\",engine=\"0000000000000abc\"} "
         "four"},
        {"instance=\"0000000000000abc\"", "instance=\"00000000000000000abcdefgh\""},
        {"pid=\"4711\"", "process=\"4711\""},
        {"} 1700000000.045", "} -1"},
        {"} 1700000000.045", "} nan"},
        {"} 1700000000.045", "}"},
        {"engine=\"0000000000000abc\"} 17", "engine=\"0000000000000abc} 17"},
        {"engine=\"0000000000000abc\"} 17", "engine=0000000000000abc} 17"},
        {"operation=\"write\"} 5.0", "operation=\"write\"} -5.0"},
        {"} 1099511627776", "} 1e9"}};
    for (const auto& [old, fresh] : damages) {
        std::string damaged = text;
        damaged.replace(damaged.find(old), std::string(old).size(), fresh);
        EXPECT_NE(refusal(damaged).find("line "), std::string::npos) << fresh << ": " << refusal(damaged);
    }
    std::string falls = text;
    const std::size_t last = falls.find("le=\"+Inf\"} ");
    falls.replace(last, falls.find('\n', last) - last, "le=\"+Inf\"} 1");
    EXPECT_NE(refusal(falls).find("less than the one before"), std::string::npos) << refusal(falls);
}

}  // namespace live_report_test
}  // namespace railyard
