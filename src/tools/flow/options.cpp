// Command line parsing.
#include "tools/flow/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <utility>

#include "common/number_range.h"
#include "common/unexpected_option.h"
#include "railyard_version.h"
#include "tools/flow/failure.h"
#include "tools/flow/grain_format.h"

namespace railyard::tools::flow {
namespace {

constexpr std::uint64_t smallest_grain = 128;
constexpr std::uint64_t largest_grain = std::uint64_t{1} << 40;
constexpr std::uint64_t most_grains = std::uint64_t{1} << 60;
constexpr std::uint64_t default_grain = std::uint64_t{1} << 20;

/// Option values as the command line has them, before they are turned into Options.
struct Texts {
    std::string provider = "any", endpoint = "default", preset, grain_size, info;
    std::optional<double> rate;
};

void declare_common(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--provider", texts.provider, "any, tcp, verbs, efa or shm; the same on both sides")
        ->capture_default_str();
    app.add_option("--endpoint", texts.endpoint, "default, rdm or msg")->capture_default_str();
    app.add_option("--interface", options.interface, "Devices to use: names separated by commas [all]");
    app.add_option("--rails", options.rails, "Upper limit for the number of rails; 0: every device")
        ->capture_default_str()
        ->check(CLI::Range(0u, 1024u));
    app.add_option("--rails-per-device", options.rails_per_device, "Endpoints on each device; 0: one")
        ->capture_default_str()
        ->check(CLI::Range(0u, 64u));
    app.add_option("--preset", texts.preset,
                   "video: grains of 5529600 bytes, 60 a second; audio: 4096 bytes, 1000 a second");
    app.add_option("--grain-size", texts.grain_size,
                   "Bytes of a grain, with its header of 88; K, M, G [the preset's, else 1M]");
    app.add_option("--ring", options.ring, "Grains of the ring; the same on both sides")
        ->capture_default_str()
        ->check(CLI::Range(1u, 16384u));
    app.add_flag("--json", options.json, "Print the result as one JSON object");
}

void declare_target(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--info", texts.info,
                   "File to write the target info to, removed at the end [a line on standard output]")
        ->type_name("FILE");
    app.add_option("--slices", options.slices, "Parts that a grain may be sent in; 0: one")
        ->capture_default_str()
        ->check(CLI::Range(0u, 4096u));
    auto* const output =
        app.add_option("--output", options.output, "File to write what an initiator sends with --file")
            ->type_name("FILE");
    app.add_option("--grains", options.grains, "Grains to receive; 0: until the initiator has gone")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{0}, most_grains))
        ->excludes(output);
    app.add_option("--idle-timeout", options.idle_timeout,
                   "Seconds without a grain, once every initiator has gone, after which the target ends")
        ->capture_default_str()
        ->check(number_range(0.0, 86400.0));
}

void declare_initiator(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--info", options.info,
                   "File with a target's info; repeatable, each target gets every grain [a line on standard "
                   "input]")
        ->type_name("FILE")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--connect-timeout", options.connect_timeout,
                   "Seconds that the info may take to come, and then the targets to answer")
        ->capture_default_str()
        ->check(number_range(0.0, 86400.0));
    app.add_option("--slices", options.slices, "As the targets have it; for --send-slices")
        ->capture_default_str()
        ->check(CLI::Range(0u, 4096u));
    app.add_flag("--send-slices", options.send_slices, "Send each grain slice by slice");
    app.add_option("--rate", texts.rate, "Grains a second; 0: as fast as possible [the preset's, else 0]")
        ->check(number_range(0.0, 1e9));
    auto* const file =
        app.add_option("--file", options.file, "File to send, once, instead of invented content")
            ->type_name("FILE");
    app.add_option("--grains", options.grains, "Grains to send; 0: until SIGINT or SIGTERM")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{0}, most_grains))
        ->excludes(file);
}

/// Instead of "A subcommand is required", which names nothing.
std::string subcommand_text(const CLI::App& app) {
    const std::vector<std::string> unknown = app.remaining();
    const std::string wanted = "the first word is to be target or initiator";
    return unknown.empty() ? wanted : wanted + ", not '" + unknown.front() + "'";
}

struct Preset {
    std::uint64_t grain_size;
    double rate;
};

void finish(Options& options, const Texts& texts) {
    options.provider = choose<ryf_provider>("--provider", texts.provider,
                                            {{"any", RYF_PROVIDER_ANY},
                                             {"tcp", RYF_PROVIDER_TCP},
                                             {"verbs", RYF_PROVIDER_VERBS},
                                             {"efa", RYF_PROVIDER_EFA},
                                             {"shm", RYF_PROVIDER_SHM}});
    options.endpoint = choose<ryf_endpoint>(
        "--endpoint", texts.endpoint,
        {{"default", RYF_ENDPOINT_DEFAULT}, {"rdm", RYF_ENDPOINT_RDM}, {"msg", RYF_ENDPOINT_MSG}});
    Preset preset{default_grain, 0};
    if (!texts.preset.empty()) {
        preset =
            choose<Preset>("--preset", texts.preset, {{"video", {5'529'600, 60}}, {"audio", {4096, 1000}}});
    }
    options.grain_size =
        texts.grain_size.empty() ? preset.grain_size : parse_size("--grain-size", texts.grain_size);
    options.rate = texts.rate.value_or(preset.rate);
    if (options.grain_size < smallest_grain || options.grain_size > largest_grain) {
        throw UsageError("--grain-size: " + std::to_string(options.grain_size) +
                         " is out of range, give 128 bytes to 1024G");
    }
    if (!texts.info.empty()) options.info = {texts.info};
    if (options.role == Role::initiator && options.send_slices && options.slices == 0)
        throw UsageError("--send-slices: say with --slices how many slices the target has");
    if (options.role == Role::initiator && !options.send_slices && options.slices != 0)
        throw UsageError("--slices: an initiator uses them with --send-slices only; give both or neither");
}

}  // namespace

std::uint64_t parse_size(const char* option, std::string_view text) {
    constexpr std::string_view suffixes = "KMG";
    const std::size_t suffix = text.empty() ? suffixes.npos : suffixes.find(text.back());
    const std::string_view digits = suffix == suffixes.npos ? text : text.substr(0, text.size() - 1);
    const unsigned shift = suffix == suffixes.npos ? 0 : 10 * (static_cast<unsigned>(suffix) + 1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() ||
        value > std::numeric_limits<std::uint64_t>::max() >> shift) {
        throw UsageError(std::string(option) + ": '" + std::string(text) +
                         "' is no size, give digits and at most one of K, M, G");
    }
    return value << shift;
}

ParsedOptions parse_options(int argc, const char* const* argv) {
    ParsedOptions result;
    Options options;
    Texts texts;
    CLI::App app(
        "Sends a ring of grains from one initiator to any number of targets, and checks and times every one. "
        "Exit status: 0 all went well, 1 grains were lost or damaged or something failed, 2 usage.",
        "railyard-flow");
    app.set_version_flag("--version", RAILYARD_VERSION);
    app.require_subcommand(1);
    CLI::App* const target = app.add_subcommand("target", "Receive grains");
    CLI::App* const initiator = app.add_subcommand("initiator", "Send grains to targets");
    declare_common(*target, options, texts);
    declare_target(*target, options, texts);
    declare_common(*initiator, options, texts);
    declare_initiator(*initiator, options, texts);
    try {
        app.parse(argc, argv);
        options.role = target->parsed() ? Role::target : Role::initiator;
        finish(options, texts);
        result.options = std::move(options);
    } catch (const CLI::CallForHelp&) {
        result.text = app.help();
    } catch (const CLI::CallForVersion&) {
        result.text = std::string(RAILYARD_VERSION) + "\n";
    } catch (const CLI::ExtrasError&) {
        result = {std::nullopt, "railyard-flow: " + unexpected(app) + "; see --help\n", 2};
    } catch (const CLI::RequiredError&) {
        result = {std::nullopt, "railyard-flow: " + subcommand_text(app) + "; see --help\n", 2};
    } catch (const std::exception& error) {
        result = {std::nullopt, "railyard-flow: " + in_our_words(error.what()) + "; see --help\n", 2};
    }
    return result;
}

}  // namespace railyard::tools::flow
