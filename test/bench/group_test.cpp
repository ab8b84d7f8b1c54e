// Groups of processes: who moves data with whom, where they meet, what they were told.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/usage_error.h"
#include "failure.h"
#include "group/group_options.h"
#include "group/group_report.h"
#include "group/group_runner.h"
#include "group/pattern.h"
#include "group/rendezvous.h"
#include "options.h"

namespace railyard::bench {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<unsigned>;

ParsedOptions parse_group(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "railyard-bench");
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

constexpr GroupPattern patterns[] = {GroupPattern::pairwise, GroupPattern::all_to_all,
                                     GroupPattern::many_to_one, GroupPattern::one_to_many};

TEST(GroupPatterns, WhoMovesDataWithWhom) {
    EXPECT_EQ(targets_of(GroupPattern::pairwise, 1, 6), Ranks{4});
    EXPECT_EQ(targets_of(GroupPattern::pairwise, 4, 6), Ranks{});
    EXPECT_EQ(initiators_of(GroupPattern::pairwise, 4, 6), Ranks{1});
    EXPECT_EQ(targets_of(GroupPattern::all_to_all, 2, 5), (Ranks{3, 4, 0, 1})) << "the next one first";
    EXPECT_EQ(initiators_of(GroupPattern::all_to_all, 2, 5), (Ranks{0, 1, 3, 4}));
    EXPECT_EQ(targets_of(GroupPattern::many_to_one, 3, 5), Ranks{0});
    EXPECT_EQ(targets_of(GroupPattern::many_to_one, 0, 5), Ranks{});
    EXPECT_EQ(initiators_of(GroupPattern::many_to_one, 0, 5), (Ranks{1, 2, 3, 4}));
    EXPECT_EQ(targets_of(GroupPattern::one_to_many, 0, 5), (Ranks{1, 2, 3, 4}));
    EXPECT_EQ(initiators_of(GroupPattern::one_to_many, 4, 5), Ranks{0});
}

TEST(GroupPatterns, BothSidesAgreeAndNobodyIsItsOwnPartner) {
    for (GroupPattern pattern : patterns) {
        for (unsigned world : {2u, 4u, 8u, 14u}) {
            std::size_t most = 0;
            for (unsigned rank = 0; rank < world; ++rank) {
                const Ranks targets = targets_of(pattern, rank, world);
                const Ranks initiators = initiators_of(pattern, rank, world);
                most = std::max(most, targets.size() + initiators.size());
                EXPECT_EQ(std::count(targets.begin(), targets.end(), rank), 0);
                for (unsigned target : targets) {
                    const Ranks back = initiators_of(pattern, target, world);
                    EXPECT_EQ(std::count(back.begin(), back.end(), rank), 1) << to_string(pattern);
                }
            }
            EXPECT_EQ(most_partners(pattern, world), most) << to_string(pattern) << " " << world;
        }
    }
}

TEST(GroupOptions, RendezvousAddresses) {
    const RendezvousAddress tcp = parse_rendezvous("tcp://10.0.0.1:5500");
    EXPECT_EQ(tcp.kind, RendezvousAddress::Kind::tcp);
    EXPECT_EQ(tcp.host, "10.0.0.1");
    EXPECT_EQ(tcp.port, 5500);
    EXPECT_EQ(tcp.text(), "tcp://10.0.0.1:5500");
    const RendezvousAddress etcd = parse_rendezvous("etcd://[fd00::1]:2379/job-17.a_b");
    EXPECT_EQ(etcd.kind, RendezvousAddress::Kind::etcd);
    EXPECT_EQ(etcd.host, "fd00::1");
    EXPECT_EQ(etcd.group, "job-17.a_b");
    EXPECT_EQ(etcd.text(), "etcd://[fd00::1]:2379/job-17.a_b");
    EXPECT_FALSE(etcd.secure);
    const RendezvousAddress secure = parse_rendezvous("etcds://h:2379/g");
    EXPECT_EQ(secure.kind, RendezvousAddress::Kind::etcd);
    EXPECT_TRUE(secure.secure);
    EXPECT_EQ(secure.text(), "etcds://h:2379/g");
}

TEST(GroupOptions, BadRendezvousAddressesAreRefusedByName) {
    for (const char* text :
         {"", "10.0.0.1:5500", "udp://h:1", "tcp://", "tcp://h", "tcp://:1", "tcp://h:0", "tcp://h:65536",
          "tcp://h:1x", "tcp://h:1/group", "etcd://h:1", "etcd://h:1/", "etcd://h:1/a/b", "etcd://h/g",
          "etcd://h:1/a b", "etcd://:1/g", "ETCD://h:1/g", "etcds://h:1"}) {
        try {
            static_cast<void>(parse_rendezvous(text));
            ADD_FAILURE() << text;
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos)
                << error.what();
            EXPECT_NE(std::string(error.what()).find("etcd://HOST:PORT/GROUP"), std::string::npos)
                << error.what();
        }
    }
    EXPECT_THROW(static_cast<void>(parse_rendezvous("etcd://h:1/" + std::string(129, 'a'))), UsageError);
}

TEST(GroupOptions, AreTaken) {
    const auto parsed = parse_group({"--world", "8", "--rendezvous", "etcd://h:2379/g", "--rank", "3",
                                     "--pattern", "many-to-one", "--per-process"});
    ASSERT_TRUE(parsed.options) << parsed.text;
    const GroupOptions& group = parsed.options->group;
    EXPECT_TRUE(parsed.options->is_group());
    EXPECT_EQ(group.world, 8u);
    EXPECT_EQ(group.rank, 3u);
    EXPECT_EQ(group.pattern, GroupPattern::many_to_one);
    EXPECT_TRUE(group.per_process);
    EXPECT_EQ(parsed.options->params.count("devices"), 0u) << "many machines choose their own devices";
}

TEST(GroupOptions, AForkedGroupStaysOnThisHost) {
    const auto parsed = parse_group({"--world", "3"});
    ASSERT_TRUE(parsed.options) << parsed.text;
    EXPECT_FALSE(parsed.options->group.rendezvous);
    EXPECT_EQ(parsed.options->group.pattern, GroupPattern::all_to_all);
    EXPECT_EQ(parsed.options->params.at("devices"), "lo");
    EXPECT_FALSE(parse_group({}).options->is_group());
}

TEST(GroupOptions, BadOnesAreRefusedByName) {
    const std::vector<std::pair<std::vector<const char*>, const char*>> bad{
        {{"--world", "1"}, "--world"},
        {{"--world", "4097"}, "--world"},
        {{"--world", "x"}, "--world"},
        {{"--rendezvous", "tcp://h:1"}, "--world"},
        {{"--pattern", "all-to-all"}, "--world"},
        {{"--rank", "0"}, "--world"},
        {{"--per-process"}, "--world"},
        {{"--world", "4", "--rank", "1"}, "--rendezvous"},
        {{"--world", "4", "--rank", "4", "--rendezvous", "tcp://h:1"}, "--rank 4"},
        {{"--world", "4", "--rank", "-1", "--rendezvous", "tcp://h:1"}, "--rank"},
        {{"--world", "4", "--pattern", "ring"}, "'ring' is none of pairwise"},
        {{"--world", "3", "--pattern", "pairwise"}, "even"},
        {{"--world", "4", "--rendezvous", "etcd://h:1"}, "no GROUP"},
        {{"--world", "4", "--raw"}, "--raw"},
        {{"--world", "4", "--raw-only"}, "--raw"},
        {{"--world", "4", "--slices", "3"}, "--slices"},
        {{"--world", "4", "--post-time"}, "--post-time"},
        {{"--world", "4", "--idle-check", "1"}, "--idle-check"},
        {{"--world", "4", "--target-poll", "on"}, "--target-poll"},
        {{"--world", "4", "--rendezvous", "tcp://h:1", "--target-env", "A=b"}, "--target-env"},
        {{"--world", "4", "--stream", "attached"}, "--stream"},
        {{"--world", "4", "--role", "target", "--peer", ":1"}, "--role"}};
    for (const auto& [arguments, what] : bad) {
        const ParsedOptions parsed = parse_group(arguments);
        EXPECT_FALSE(parsed.options) << what;
        EXPECT_EQ(parsed.exit_status, 2) << what;
        EXPECT_NE(parsed.text.find(what), std::string::npos) << parsed.text;
    }
}

TEST(GroupOptions, TheMemoryIsSharedAmongPartners) {
    const auto points_of = [](const char* memory, bool forked, const char* size) {
        std::vector<const char*> arguments{"--world",  "8",    "--sizes",  size,
                                           "--memory", memory, "--window", "16"};
        if (!forked) arguments.insert(arguments.end(), {"--rendezvous", "tcp://h:1"});
        return make_group_points(*parse_group(arguments).options);
    };
    ASSERT_EQ(points_of("29M", false, "1M").size(), 1u);
    EXPECT_EQ(points_of("29M", false, "1M").front().layout.window, 2u) << "7 targets and 7 initiators";
    EXPECT_EQ(points_of("116M", true, "1M").front().layout.window, 2u)
        << "of 8 processes, which share 232 MiB";
    EXPECT_EQ(points_of("2G", true, "16M").front().layout.window, 2u) << "the defaults";
    for (bool forked : {false, true}) {
        try {
            static_cast<void>(points_of("28M", forked, "4M"));
            ADD_FAILURE();
        } catch (const std::invalid_argument& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find(forked ? "twice --memory 28M is for all processes"
                                       : "--memory 28M is for one process"),
                      std::string::npos)
                << text;
            EXPECT_NE(text.find("the 14 partners of each"), std::string::npos) << text;
        }
    }
}

TEST(GroupTexts, SayWhoIsMissing) {
    EXPECT_EQ(missing_text({5}, 8, "arrived", 30s),
              "rank 5 of 8 has not arrived within 30 s; --timeout sets the limit");
    EXPECT_EQ(missing_text({5, 7}, 8, "arrived", 500ms),
              "ranks 5, 7 of 8 have not arrived within 0.5 s; --timeout sets the limit");
    EXPECT_NE(missing_text(Ranks(20), 64, "arrived", 1s).find("and 12 more of 64"), std::string::npos);
    EXPECT_EQ(gone_text(1, {"a", "host h, process 7"}), "rank 1 (host h, process 7) has gone");
}

ProcessResult measured(unsigned rank, std::uint64_t transfers, double seconds) {
    ProcessResult result;
    result.rank = rank;
    result.transfers = transfers;
    result.seconds = seconds;
    for (std::uint64_t i = 0; i < transfers; ++i)
        result.latency.add(1000 * (rank + 1) + i);
    return result;
}

TEST(GroupReport, AProcessesResultTravels) {
    const ProcessResult sent = measured(3, 1000, 0.5);
    const ProcessResult back = process_result(to_message(sent), 3);
    EXPECT_EQ(back.rank, 3u);
    EXPECT_EQ(back.transfers, 1000u);
    EXPECT_DOUBLE_EQ(back.transfers_per_s(), 2000);
    EXPECT_EQ(back.latency.count(), 1000u);
    for (double fraction : {0.01, 0.5, 0.999})
        EXPECT_DOUBLE_EQ(back.latency.percentile(fraction), sent.latency.percentile(fraction));
    nlohmann::json message = to_message(sent);
    message["latency"].push_back({1u << 20, 1});
    EXPECT_THROW(static_cast<void>(process_result(message, 3)), Failure);
}

TEST(GroupReport, TheSlowestSetsTheRateOfAll) {
    GroupPointResult result;
    result.point.layout = {1000, 2, 4};
    result.processes = {measured(0, 100, 0.5), measured(1, 300, 1.0)};
    result.checked = true;
    const Measurement all = result.all();
    EXPECT_EQ(all.transfers, 400u);
    EXPECT_DOUBLE_EQ(all.transfers_per_s, 400);
    EXPECT_DOUBLE_EQ(all.mb_per_s, 0.8);
    EXPECT_EQ(all.latency.count(), 400u);
    Options options;
    options.group.world = 2;
    const nlohmann::json json = to_json(result, options);
    EXPECT_EQ(json.at("world"), 2);
    EXPECT_EQ(json.at("pattern"), "all-to-all");
    EXPECT_DOUBLE_EQ(json.at("ops_per_s"), 800);
    EXPECT_EQ(json.at("checked"), true);
    ASSERT_EQ(json.at("processes").size(), 2u);
    const nlohmann::json& second = json.at("processes").at(1);
    EXPECT_EQ(second.at("rank"), 1);
    EXPECT_DOUBLE_EQ(second.at("ops_per_s"), 600);
    EXPECT_DOUBLE_EQ(second.at("mb_per_s"), 0.6);
    EXPECT_NEAR(second.at("p50_us").get<double>(), 2.15, 0.05);
}

}  // namespace
}  // namespace railyard::bench
