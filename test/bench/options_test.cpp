#include "options.h"

#include <gtest/gtest.h>

namespace railyard::bench {
namespace {

ParsedOptions parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "railyard-bench");
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options good(std::vector<const char*> arguments) {
    ParsedOptions parsed = parse(std::move(arguments));
    EXPECT_TRUE(parsed.options) << parsed.text;
    return parsed.options.value_or(Options{});
}

TEST(BenchOptions, DefaultsStayOnThisHost) {
    Options options = good({});
    EXPECT_EQ(options.role, Role::both);
    EXPECT_EQ(options.params.at("provider"), "tcp");
    EXPECT_EQ(options.params.at("devices"), "lo");
    EXPECT_EQ(good({"--provider", "tcp-msg"}).params.at("devices"), "lo");
    EXPECT_EQ(options.ops, std::vector{host::Op::write});
    EXPECT_EQ(options.sizes.size(), 22u);
    EXPECT_TRUE(options.check);
    EXPECT_EQ(options.slice_count(), 1u);
}

TEST(BenchOptions, DevicesAreLeftAloneWhereTheyAreNamedOrHaveNoMeaning) {
    EXPECT_EQ(good({"--param", "devices=eth7"}).params.at("devices"), "eth7");
    EXPECT_EQ(good({"--provider", "shm"}).params.count("devices"), 0u);
    EXPECT_EQ(good({"--role", "initiator", "--peer", "h:1"}).params.count("devices"), 0u);
    EXPECT_EQ(good({"--plugin", "UCX"}).params.size(), 0u);
    EXPECT_EQ(good({}).params.at("local_rail"), "off");
    EXPECT_EQ(good({"--param", "local_rail=auto"}).params.at("local_rail"), "auto");
}

TEST(BenchOptions, ParamsRepeat) {
    Options options = good({"--param", "chunk_size=64K", "--param", "log_level=warn", "--rails-per-device",
                            "4", "--sizes", "8"});
    EXPECT_EQ(options.params.at("chunk_size"), "64K");
    EXPECT_EQ(options.params.at("log_level"), "warn");
    EXPECT_EQ(fabric_choice(options.params).rails_per_device, 4u);
}

/// As in an engine, which says nothing of it.
TEST(BenchOptions, SaysWhereTheEnvironmentWins) {
    setenv("RAILYARD_CHUNK_SIZE", "1M", 1);
    setenv("RAILYARD_CLUSTER_SECRET", "what-the-environment-has", 1);
    const ParsedOptions other = parse(
        {"--param", "chunk_size=64K", "--param", "cluster_secret=what-was-given-here", "--param", "rails=1"});
    const ParsedOptions same = parse({"--param", "chunk_size=1M"}), elsewhere = parse({"--plugin", "OTHER"});
    unsetenv("RAILYARD_CHUNK_SIZE");
    unsetenv("RAILYARD_CLUSTER_SECRET");
    EXPECT_EQ(other.text,
              "railyard-bench: chunk_size is 1M, as RAILYARD_CHUNK_SIZE in the environment wins\n"
              "railyard-bench: cluster_secret is another one, as RAILYARD_CLUSTER_SECRET in the environment "
              "wins\n");
    EXPECT_EQ(same.text + elsewhere.text, "");
}

TEST(BenchOptions, RailsPerDeviceIsCalledAsInRailyardFlow) {
    const ParsedOptions fresh = parse({"--rails-per-device", "3"}), old = parse({"--rails", "3"});
    ASSERT_TRUE(fresh.options && old.options) << fresh.text << old.text;
    EXPECT_EQ(fresh.options->params.at("rails_per_device"), "3");
    EXPECT_EQ(fresh.text, "");
    EXPECT_EQ(old.options->params, fresh.options->params) << "scripts that have the old name go on";
    EXPECT_NE(old.text.find("--rails is called --rails-per-device now"), std::string::npos) << old.text;
    EXPECT_EQ(parse({"--rails", "3", "--rails-per-device", "4"}).exit_status, 2);
    EXPECT_EQ(parse({"--help"}).text.find("--rails "), std::string::npos);
}

TEST(BenchOptions, WorkloadIsTaken) {
    Options options = good({"--op",  "both",    "--sizes", "8,1M",       "--batch",   "1,64", "--notify",
                            "both",  "--iters", "100",     "--window",   "3",         "--pt", "on",
                            "--raw", "--json",  "-",       "--no-check", "--timeout", "2.5"});
    EXPECT_EQ(options.ops, (std::vector{host::Op::write, host::Op::read}));
    EXPECT_EQ(options.sizes, (std::vector<std::uint64_t>{8, 1u << 20}));
    EXPECT_EQ(options.batches, (std::vector<unsigned>{1, 64}));
    EXPECT_EQ(options.notify, (std::vector<bool>{false, true}));
    EXPECT_EQ(options.iterations, 100u);
    EXPECT_EQ(options.window, 3u);
    EXPECT_TRUE(options.progress_thread);
    EXPECT_TRUE(options.raw);
    EXPECT_EQ(options.slice_count(), 5u);
    EXPECT_TRUE(options.json_to_stdout());
    EXPECT_FALSE(options.check);
    EXPECT_EQ(options.timeout.count(), 2500);
}

TEST(BenchOptions, PeerIsHostAndPort) {
    Options options = good({"--role", "initiator", "--peer", "[::1]:4000"});
    EXPECT_EQ(options.peer_host, "::1");
    EXPECT_EQ(options.peer_port, 4000);
    EXPECT_EQ(good({"--role", "target", "--peer", ":0"}).peer_port, 0);
}

TEST(BenchOptions, MemoryIsTheHostsUnlessSaid) {
    Options options = good({});
    EXPECT_FALSE(options.mem.vram || options.target_mem.vram || options.uses_gpu());
    EXPECT_EQ(options.mem.device(), 0u);
    EXPECT_EQ(options.stream, StreamMode::off);
}

TEST(BenchOptions, TheTargetsMemoryIsAsTheInitiatorsUnlessSaid) {
    Options options = good({"--mem", "vram", "--gpu", "2"});
    EXPECT_TRUE(options.mem.vram && options.target_mem.vram && options.uses_gpu());
    EXPECT_EQ(options.mem.device(), 3u);
    EXPECT_EQ(options.target_mem.gpu, 2u);
    options = good({"--mem", "vram", "--gpu", "2", "--target-mem", "dram"});
    EXPECT_EQ(options.target_mem.device(), 0u);
    options = good({"--target-mem", "vram", "--target-gpu", "1"});
    EXPECT_FALSE(options.mem.vram);
    EXPECT_EQ(options.target_mem.device(), 2u);
    EXPECT_EQ(options.mem.gpu, 0u);
}

TEST(BenchOptions, StreamsAreAttachedToAnyMemoryAndPooledForTheGpus) {
    EXPECT_EQ(good({"--stream", "attached"}).stream, StreamMode::attached);
    EXPECT_TRUE(good({"--stream", "attached"}).uses_gpu());
    EXPECT_EQ(good({"--stream", "pool", "--target-mem", "vram"}).stream, StreamMode::pool);
    EXPECT_FALSE(good({"--stream", "off"}).uses_gpu());
}

TEST(BenchOptions, MistakesAreUsageErrors) {
    for (std::vector<const char*> arguments :
         std::vector<std::vector<const char*>>{{"--op", "append"},
                                               {"--sizes", "0"},
                                               {"--sizes", "9:1"},
                                               {"--batch", "x"},
                                               {"--window", "0"},
                                               {"--param", "x"},
                                               {"--param", "=x"},
                                               {"--provider", "tcp", "--param", "provider=shm"},
                                               {"--role", "target"},
                                               {"--peer", "h:1"},
                                               {"--role", "initiator", "--peer", "h"},
                                               {"--role", "initiator", "--peer", ":1"},
                                               {"--role", "initiator", "--peer", "h:0"},
                                               {"--role", "target", "--peer", "h:70000"},
                                               {"--pt", "maybe"},
                                               {"--iters", "5", "--seconds", "1"},
                                               {"--raw", "--raw-only"},
                                               {"--timeout", "-1"},
                                               {"--timeout", "nan"},
                                               {"--seconds", "nan"},
                                               {"--idle-check", "-NaN"},
                                               {"--rails-per-device", "65"},
                                               {"--mem", "hbm"},
                                               {"--target-mem", "gpu"},
                                               {"--mem", "vram", "--gpu", "-1"},
                                               {"--target-gpu", "x"},
                                               {"--stream", "own"},
                                               {"--stream", "pool"},
                                               {"--raw", "--mem", "vram"},
                                               {"--raw-only", "--target-mem", "vram"},
                                               {"--raw", "--stream", "attached"},
                                               {"--raw-only", "--provider", "tcp-msg"},
                                               {"--unknown"},
                                               {"positional"},
                                               {"--raw", "--plugin", "UCX"},
                                               {"--role", "target", "--peer", "h:1x"}}) {
        ParsedOptions parsed = parse(arguments);
        EXPECT_FALSE(parsed.options) << arguments.front() << " " << arguments.back();
        EXPECT_EQ(parsed.exit_status, 2) << arguments.front();
        EXPECT_NE(parsed.text.find("railyard-bench: "), std::string::npos) << parsed.text;
    }
}

/// An option that its side would pass over.
TEST(BenchOptions, OptionsOfTheOtherSideAreRefused) {
    for (std::vector<const char*> arguments : std::vector<std::vector<const char*>>{
             {"--op", "read"},        {"--sizes", "8"},         {"--batch", "2"},     {"--notify", "on"},
             {"--window", "2"},       {"--seconds", "1"},       {"--iters", "5"},     {"--slices", "2"},
             {"--seed", "5"},         {"--mem", "dram"},        {"--gpu", "0"},       {"--target-gpu", "0"},
             {"--stream", "off"},     {"--target-mem", "dram"}, {"--pt", "on"},       {"--raw"},
             {"--post-time"},         {"--idle-check", "1"},    {"--json", "x.json"}, {"--no-check"},
             {"--target-poll", "on"}, {"--target-env", "A=b"}}) {
        const std::string name = arguments.front();
        good(arguments);
        arguments.insert(arguments.end(), {"--peer", "h:1", "--role", "target"});
        ParsedOptions parsed = parse(arguments);
        EXPECT_FALSE(parsed.options) << name;
        EXPECT_EQ(parsed.exit_status, 2) << name;
        EXPECT_NE(parsed.text.find("railyard-bench: " + name + ": "), std::string::npos) << parsed.text;
        arguments.back() = "initiator";
        EXPECT_EQ(parse(arguments).options.has_value(), name != "--target-env") << name;
    }
    const Options target =
        good({"--role", "target", "--peer", ":1", "--plugin-dir", "/x", "--param", "a=b", "--provider", "tcp",
              "--rails-per-device", "2", "--memory", "1G", "--timeout", "3"});
    EXPECT_EQ(target.role, Role::target);
}

TEST(BenchOptions, MistakesAreToldInPlainWords) {
    using Arguments = std::vector<const char*>;
    const std::pair<Arguments, const char*> told[] = {
        {{"--sizes"}, "--sizes needs a value; "},
        {{"--op", "read", "--op", "write"}, "--op is given 2 times, and counts once; "},
        {{"--timeout", "0"}, "--timeout: Value 0 not in range 0.1 to 3600; "},
        {{"--seed", "x"}, "--seed: 'x' is no number from 0 on; "}};
    for (const auto& [arguments, text] : told) {
        const ParsedOptions parsed = parse(arguments);
        EXPECT_NE(parsed.text.find(text), std::string::npos) << parsed.text;
        EXPECT_EQ(parsed.exit_status, 2);
    }
}

TEST(BenchOptions, HelpIsNoError) {
    ParsedOptions parsed = parse({"--help"});
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exit_status, 0);
    for (const char* name :
         {"--plugin",           "--plugin-dir", "--param",  "--op",   "--sizes", "--batch",      "--notify",
          "--seconds",          "--iters",      "--window", "--pt",   "--json",  "--no-check",   "--raw",
          "--rails-per-device", "--timeout",    "--role",   "--peer", "--mem",   "--target-mem", "--gpu",
          "--target-gpu",       "--stream"}) {
        EXPECT_NE(parsed.text.find(name), std::string::npos) << name;
    }
    EXPECT_EQ(parsed.text.find("--corrupt"), std::string::npos);
}

}  // namespace
}  // namespace railyard::bench
