// Command line parsing.
#include "options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "common/number_range.h"
#include "common/params.h"
#include "common/random.h"
#include "common/status.h"
#include "common/unexpected_option.h"
#include "common/usage_error.h"
#include "host_port.h"
#include "plugin_directory.h"
#include "railyard_version.h"
#include "size_list.h"

namespace railyard::bench {

namespace {

/// Option values as the command line has them, before they are turned into Options.
struct Texts {
    std::vector<std::string> params;
    std::vector<std::string> target_environment;
    std::string provider, rails_per_device, rails;
    std::string op = "write", sizes = "8:16M", batches = "1", notify = "off", pt = "off";
    std::string memory = "2G", role, peer, target_poll = "auto", corrupt = "none";
    std::string mem = "dram", target_mem, stream = "off";
    std::optional<unsigned> target_gpu;
    double timeout = 30;
    GroupTexts group;
    std::string warnings;
};

bool is_tcp(std::string_view provider) {
    return provider == "tcp" || provider == "tcp-msg" || provider == "net" || provider == "tcp;ofi_rxm";
}

void declare_plugin(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--plugin", options.plugin, "Backend to drive: libplugin_NAME.so")->capture_default_str();
    app.add_option(
           "--plugin-dir", options.plugin_dir,
           "Where it lies [RAILYARD_PLUGIN_DIR, NIXL_PLUGIN_DIR, else ../plugins beside this program, "
           "else where it was installed with this program]")
        ->type_name("DIR");
    app.add_option("--param", texts.params, "Backend parameter KEY=VALUE; repeatable [local_rail=off]")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--provider", texts.provider,
                   "Short for --param provider=NAME [tcp when both sides are forked]");
    app.add_option("--rails-per-device", texts.rails_per_device, "Short for --param rails_per_device=N");
    app.add_option("--rails", texts.rails)->group("");  // what it was called
    app.add_option("--pt", texts.pt, "Progress thread of the plugin: on, off")->capture_default_str();
}

void declare_workload(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--op", texts.op, "write, read or both")->capture_default_str();
    app.add_option("--sizes", texts.sizes, "Bytes of a descriptor: LOW:HIGH (doubling) or a list; K, M, G")
        ->capture_default_str();
    app.add_option("--batch", texts.batches, "Descriptors of a transfer: a list")->capture_default_str();
    app.add_option("--notify", texts.notify, "Each transfer carries a notification: on, off, both")
        ->capture_default_str();
    app.add_option("--window", options.window, "Transfers outstanding")
        ->capture_default_str()
        ->check(CLI::Range(1u, 65536u));
    auto* seconds = app.add_option("--seconds", options.seconds, "Time a point is measured for")
                        ->capture_default_str()
                        ->check(number_range(0.001, 1800.0));
    app.add_option("--iters", options.iterations, "Transfers a point is measured for, instead of --seconds")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
        ->excludes(seconds);
    app.add_option("--slices", options.slices,
                   "Timed parts of a point, of which the median counts [1; 5 with --raw]")
        ->check(CLI::Range(1u, 1000u));
    app.add_option("--memory", texts.memory, "Most memory of either side; the window shrinks to fit")
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Seed of the contents [random]")
        ->check(CLI::Validator(
            [](std::string& text) {
                const bool fine = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
                return fine ? std::string() : "'" + text + "' is no number from 0 on";
            },
            "NONNEGATIVE"));
}

void declare_memory(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--mem", texts.mem, "The initiator's memory: dram, or vram of --gpu")
        ->capture_default_str();
    app.add_option("--target-mem", texts.target_mem, "The target's, likewise, of --target-gpu [as --mem]");
    app.add_option("--gpu", options.mem.gpu, "CUDA ordinal of the initiator's GPU")
        ->capture_default_str()
        ->check(CLI::Range(0u, 1023u));
    app.add_option("--target-gpu", texts.target_gpu, "CUDA ordinal of the target's GPU [as --gpu]")
        ->check(CLI::Range(0u, 1023u));
    app.add_option(
           "--stream", texts.stream,
           "attached: each transfer is posted on a CUDA stream of its own; pool: GPU memory, copied on the "
           "plugin's streams; off")
        ->capture_default_str();
}

void declare_run(CLI::App& app, Options& options, Texts& texts) {
    app.add_flag("--raw", options.raw, "Also measure a plain libfabric loop, in turns, and print the ratio");
    app.add_flag("--raw-only", options.raw_only, "Measure the plain libfabric loop alone; needs no plugin");
    app.add_flag("--post-time", options.post_time, "Also measure the caller's time in each post");
    app.add_option("--idle-check", options.idle_seconds,
                   "Only connect, do nothing for so many seconds, print CPU use")
        ->check(number_range(0.1, 3600.0));
    app.add_flag("!--no-check", options.check, "Skip the verification of each point");
    app.add_option("--json", options.json,
                   "Write the results to FILE; - for nothing but JSON on standard output")
        ->type_name("FILE");
    app.add_option("--timeout", texts.timeout, "Seconds without progress after which the run fails")
        ->capture_default_str()
        ->check(number_range(0.1, 3600.0));
    app.add_option(
        "--target-poll", texts.target_poll,
        "Target asks for notifications all the time (on) or each millisecond (off) [on without --pt on]");
    app.add_option(
           "--target-env", texts.target_environment,
           "Environment variable NAME=VALUE of the forked target alone (of all but rank 0 of a forked "
           "group, where {rank} in VALUE stands for the rank); repeatable")
        ->allow_extra_args(false);
    app.add_option("--role", texts.role, "target or initiator, for two machines; needs --peer");
    app.add_option("--peer", texts.peer, "HOST:PORT where the target listens");
    app.add_option("--corrupt", texts.corrupt)->group("");
    app.add_flag("--stall", options.stall)->group("");
}

template <class F>
auto named(const char* option, F parse) {
    try {
        return parse();
    } catch (const std::invalid_argument& error) {
        throw UsageError(std::string(option) + ": " + error.what());
    }
}

void set_param(Options& options, const std::string& key, const std::string& value) {
    auto [at, fresh] = options.params.emplace(key, value);
    if (!fresh && at->second != value) {
        throw UsageError("parameter '" + key + "' is given twice" +
                         (is_secret(key) ? "" : ": '" + at->second + "' and '" + value + "'"));
    }
}

std::pair<std::string, std::string> split_pair(const char* option, const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw UsageError(std::string(option) + ": '" + text + "' is not KEY=VALUE");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

void take_params(Options& options, const Texts& texts) {
    for (const std::string& text : texts.params) {
        const auto [key, value] = split_pair("--param", text);
        set_param(options, key, value);
    }
    for (const std::string& text : texts.target_environment)
        options.target_environment.insert(split_pair("--target-env", text));
    if (!texts.provider.empty()) set_param(options, "provider", texts.provider);
    for (const std::string* rails : {&texts.rails_per_device, &texts.rails})
        if (!rails->empty()) set_param(options, "rails_per_device", *rails);
}

/// Which of these parameters is another one in an engine.
std::string overridden_by_environment(const std::map<std::string, std::string>& params) {
    std::string text;
    for (const ParamDoc& doc : param_docs()) {
        const auto given = params.find(doc.name);
        const char* const there = std::getenv(doc.env.c_str());
        if (given == params.end() || !there || !*there || given->second == there) continue;
        text += "railyard-bench: " + doc.name + " is " + (is_secret(doc.name) ? "another one" : there) +
                ", as " + doc.env + " in the environment wins\n";
    }
    return text;
}

void take_workload(Options& options, const Texts& texts) {
    using host::Op;
    options.ops = choose<std::vector<Op>>(
        "--op", texts.op, {{"write", {Op::write}}, {"read", {Op::read}}, {"both", {Op::write, Op::read}}});
    options.notify = choose<std::vector<bool>>("--notify", texts.notify,
                                               {{"off", {false}}, {"on", {true}}, {"both", {false, true}}});
    options.progress_thread = choose<bool>("--pt", texts.pt, {{"off", false}, {"on", true}});
    options.target_poll = choose<TargetPoll>(
        "--target-poll", texts.target_poll,
        {{"auto", TargetPoll::automatic}, {"on", TargetPoll::on}, {"off", TargetPoll::off}});
    options.corrupt = choose<Corrupt>("--corrupt", texts.corrupt,
                                      {{"none", Corrupt::none},
                                       {"data", Corrupt::data},
                                       {"guard", Corrupt::guard},
                                       {"reposts", Corrupt::reposts}});
    options.sizes = named("--sizes", [&] { return parse_size_list(texts.sizes); });
    for (std::uint64_t batch : named("--batch", [&] { return parse_size_list(texts.batches); })) {
        if (batch > 1'000'000) throw UsageError("--batch: at most 1000000 descriptors");
        options.batches.push_back(static_cast<unsigned>(batch));
    }
    options.memory = named("--memory", [&] { return parse_size(texts.memory); });
    options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(texts.timeout * 1000));
}

void take_memory(Options& options, const Texts& texts) {
    const auto is_vram = [](const char* option, const std::string& text) {
        return choose<bool>(option, text, {{"dram", false}, {"vram", true}});
    };
    options.mem.vram = is_vram("--mem", texts.mem);
    options.target_mem.vram =
        texts.target_mem.empty() ? options.mem.vram : is_vram("--target-mem", texts.target_mem);
    options.target_mem.gpu = texts.target_gpu.value_or(options.mem.gpu);
    options.stream = choose<StreamMode>(
        "--stream", texts.stream,
        {{"attached", StreamMode::attached}, {"pool", StreamMode::pool}, {"off", StreamMode::off}});
    if (options.stream == StreamMode::pool && !options.mem.vram && !options.target_mem.vram) {
        throw UsageError(
            "--stream pool: the plugin's streams copy GPU memory, so ask for --mem vram or --target-mem "
            "vram");
    }
    if (options.uses_gpu() && options.uses_raw()) {
        throw UsageError(
            "--raw and --raw-only: the plain libfabric loop moves host memory without streams only");
    }
}

void take_role(Options& options, const Texts& texts) {
    if (texts.role.empty() != texts.peer.empty()) {
        throw UsageError("--role and --peer belong together; leave both out to run both sides here");
    }
    if (texts.role.empty()) return;
    options.role =
        choose<Role>("--role", texts.role, {{"target", Role::target}, {"initiator", Role::initiator}});
    const auto place = split_host_port(texts.peer);
    const bool complete =
        place && (options.role == Role::target || (!place->host.empty() && place->port != 0));
    if (!complete) throw UsageError("--peer: '" + texts.peer + "' is not HOST:PORT");
    options.peer_host = place->host;
    options.peer_port = place->port;
}

/// What the initiator tells its target, or does alone, and what only a forked target has.
void refuse_for_role(const CLI::App& app, const Options& options) {
    if (options.role == Role::both) return;
    if (app.count("--target-env") != 0) {
        throw UsageError(
            "--target-env: for a target that is forked here; set the variable where --role target runs");
    }
    if (options.role == Role::initiator) return;
    for (const char* name :
         {"--op",         "--sizes",    "--batch",      "--notify", "--window",    "--seconds",
          "--iters",      "--slices",   "--seed",       "--mem",    "--gpu",       "--stream",
          "--target-mem", "--pt",       "--target-gpu", "--raw",    "--post-time", "--idle-check",
          "--json",       "--no-check", "--target-poll"}) {
        if (app.count(name) != 0)
            throw UsageError(std::string(name) + ": the initiator's; give it to --role initiator alone");
    }
}

/// What only two sides have.
void refuse_for_groups(const Options& options) {
    const std::pair<bool, const char*> alone[] = {
        {options.role != Role::both, "--role and --peer"},
        {options.uses_raw(), "--raw and --raw-only"},
        {options.idle_seconds > 0, "--idle-check"},
        {options.slices != 0, "--slices"},
        {options.post_time, "--post-time"},
        {options.target_poll != TargetPoll::automatic, "--target-poll"},
        {options.stream == StreamMode::attached, "--stream attached"}};
    for (const auto& [given, name] : alone) {
        if (given) throw UsageError(std::string(name) + ": not for a group of processes (--world)");
    }
    if (options.group.rendezvous && !options.target_environment.empty()) {
        throw UsageError(
            "--target-env: for processes that are forked here; set the variable of those of --rendezvous");
    }
}

/// Both sides on one host and nothing said: tcp over the loopback interface, so that nothing leaves the
/// machine.
void stay_on_this_host(Options& options) {
    if (options.role != Role::both || options.group.rendezvous ||
        (options.plugin != "RAILYARD" && !options.raw_only))
        return;
    FabricChoice choice = fabric_choice(options.params);
    if (choice.provider == "auto") {
        options.params["provider"] = "tcp";
        choice = fabric_choice(options.params);
    }
    const bool tcp = is_tcp(choice.provider);
    if (tcp && choice.devices.empty()) options.params["devices"] = "lo";
}

void finish(const CLI::App& app, Options& options, Texts& texts) {
    take_params(options, texts);
    if (options.plugin == "RAILYARD") {
        texts.warnings = overridden_by_environment(options.params);
        // What is measured is the fabric, also between two processes of one host.
        options.params.emplace("local_rail", "off");
    }
    take_workload(options, texts);
    take_memory(options, texts);
    take_role(options, texts);
    take_group(options.group, texts.group);
    if (options.is_group()) {
        refuse_for_groups(options);
    } else {
        refuse_for_role(app, options);
    }
    if (options.raw && options.raw_only) throw UsageError("--raw and --raw-only exclude each other");
    if (options.uses_raw() && fabric_choice(options.params).provider.ends_with("-msg"))
        throw UsageError("--raw and --raw-only: the plain libfabric loop makes no connections (FI_EP_MSG)");
    if (options.raw_only && options.idle_seconds > 0)
        throw UsageError("--idle-check needs a plugin, not --raw-only");
    if (options.raw && options.plugin != "RAILYARD" && options.params.count("provider") == 0) {
        throw UsageError("--raw with another plugin: name its --provider, and --param devices=NAME");
    }
    stay_on_this_host(options);
    options.plugin_dir = plugin_directory(options.plugin_dir, options.plugin);
    if (options.seed == 0) options.seed = random_u64() >> 16;
}

}  // namespace

const char* to_string(StreamMode mode) noexcept {
    switch (mode) {
        case StreamMode::off:
            return "off";
        case StreamMode::attached:
            return "attached";
        case StreamMode::pool:
            return "pool";
    }
    return "off";
}

bool is_secret(std::string_view param) {
    for (const ParamDoc& doc : param_docs())
        if (doc.name == param) return doc.kind == "secret";
    return false;
}

FabricChoice fabric_choice(const std::map<std::string, std::string>& params) {
    ParamMap ours;
    const ParamMap known = Params::defaults();
    for (const auto& [key, value] : params) {
        if (known.count(key) != 0) ours.emplace(key, value);
    }
    Params parsed = Params::parse(ours);
    return {parsed.provider, parsed.devices, static_cast<unsigned>(parsed.rails_per_device),
            static_cast<unsigned>(parsed.rails), parsed.local_rail == "auto"};
}

ParsedOptions parse_options(int argc, const char* const* argv) {
    ParsedOptions result;
    Options options;
    Texts texts;
    CLI::App app(
        "Measures and verifies transfers between two processes, or the many of --world, through a NIXL "
        "backend "
        "plugin. Forks them all on this host unless --role or --rendezvous is given. Exit status: 0 all "
        "transfers ended and were right, 1 not, 2 usage.",
        "railyard-bench");
    app.set_version_flag("--version", RAILYARD_VERSION);
    declare_plugin(app, options, texts);
    declare_workload(app, options, texts);
    declare_memory(app, options, texts);
    declare_run(app, options, texts);
    declare_group(app, options.group, texts.group);
    try {
        app.parse(argc, argv);
        finish(app, options, texts);
        result.options = std::move(options);
        result.text = texts.warnings;
        if (!texts.rails.empty()) {
            result.text +=
                "railyard-bench: --rails is called --rails-per-device now, as railyard-flow has it, whose "
                "--rails limits all of them (here --param rails=N)\n";
        }
    } catch (const CLI::CallForHelp&) {
        result.text = app.help();
    } catch (const CLI::CallForVersion&) {
        result.text = std::string(RAILYARD_VERSION) + "\n";
    } catch (const CLI::ExtrasError&) {
        result = {std::nullopt, "railyard-bench: " + unexpected(app) + "; see --help\n", 2};
    } catch (const std::exception& error) {
        result = {std::nullopt, "railyard-bench: " + in_our_words(error.what()) + "; see --help\n", 2};
    }
    return result;
}

}  // namespace railyard::bench
