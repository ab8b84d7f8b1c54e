// Plays schedules of faults, one a seed, and says in one line what it counted. See docs/reliability.md.
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "isolated.h"
#include "shrink.h"

/// For ThreadSanitizer: the oracle looks at memory while simulated NICs move it, on purpose.
extern "C" const char* __tsan_default_suppressions();  // NOLINT: the sanitizer's name
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
    return "race:copy_within\nrace:copy_across\n";
}

namespace railyard::fault {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::uint64_t first_seed = 1;
    std::uint64_t seeds = 100;
    double minutes = 0;
    std::optional<std::uint64_t> seed;
    std::string schedule;
    bool print = false;
    bool shrink = true;
    double shrink_seconds = 60;
    double limit_seconds = 20;
    int most_failures = 5;
    std::string log_level = "off";
};

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

PlayOptions play_options(const Options& options) {
    PlayOptions play;
    play.limit = std::chrono::milliseconds(static_cast<long>(options.limit_seconds * 1000));
    play.log_level = options.log_level;
    return play;
}

void show(const Schedule& schedule, const Verdict& verdict) {
    std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(schedule.seed),
                to_string(verdict.wrong), verdict.text.c_str());
    if (!verdict.stacks.empty()) std::printf("%s", verdict.stacks.c_str());
    std::fflush(stdout);
}

/// The smallest schedule that goes wrong in the same way, as text.
void show_shrunk(const Schedule& schedule, const Verdict& verdict, const Options& options) {
    Arena aside;  // its plays count for nothing
    PlayOptions play = play_options(options);
    play.limit = std::min(play.limit, std::chrono::milliseconds(8000));
    const auto begin = Clock::now();
    const auto may_go_on = [&] { return seconds_since(begin) < options.shrink_seconds; };
    // What depends on how threads meet does not fail each time.
    const int tries = schedule.threads > 1 ? 4 : 2;
    const auto fails = [&](const Schedule& candidate) {
        for (int i = 0; i < tries && may_go_on(); ++i) {
            if (play_isolated(candidate, play, aside).wrong == verdict.wrong) return true;
        }
        return false;
    };
    const Schedule small = shrink(schedule, fails, may_go_on);
    std::printf("smallest schedule found that fails so (%zu of %zu steps), for --schedule FILE:\n%s",
                small.steps.size(), schedule.steps.size(), to_text(small).c_str());
    std::fflush(stdout);
}

int play_one(const Schedule& schedule, const Options& options) {
    if (options.print) {
        std::printf("%s", to_text(schedule).c_str());
        return 0;
    }
    Arena arena;
    PlayOptions play = play_options(options);
    play.trace = true;
    const auto begin = Clock::now();
    const Verdict verdict = play_isolated(schedule, play, arena);
    if (verdict.wrong != Wrong::none) show(schedule, verdict);
    arena.counts().seeds = 1;
    std::printf("%s\n", to_text(arena.counts(), seconds_since(begin)).c_str());
    return verdict.wrong == Wrong::none ? 0 : 1;
}

int play_many(const Options& options) {
    Arena arena;
    const PlayOptions play = play_options(options);
    const auto begin = Clock::now();
    std::vector<std::uint64_t> failed;
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
        if (options.minutes > 0 && seconds_since(begin) > options.minutes * 60) break;
        const Schedule schedule = generate(options.first_seed + i);
        ++arena.counts().seeds;
        const Verdict verdict = play_isolated(schedule, play, arena);
        if (verdict.wrong == Wrong::none) continue;
        failed.push_back(schedule.seed);
        show(schedule, verdict);
        if (options.shrink) show_shrunk(schedule, verdict, options);
        if (static_cast<int>(failed.size()) >= options.most_failures) break;
    }
    if (arena.counts().seeds < options.seeds) {
        std::printf("ended early: %llu of %llu seeds\n",
                    static_cast<unsigned long long>(arena.counts().seeds),
                    static_cast<unsigned long long>(options.seeds));
    }
    for (const std::uint64_t seed : failed)
        std::printf("failed: test/fault/campaign --seed %llu\n", static_cast<unsigned long long>(seed));
    std::printf("%s\n", to_text(arena.counts(), seconds_since(begin)).c_str());
    return failed.empty() ? 0 : 1;
}

int run(const Options& options) {
    if (!std::getenv("FI_PROVIDER_PATH") || !std::getenv("HWLOC_XMLFILE")) {
        std::fprintf(stderr, "FI_PROVIDER_PATH and HWLOC_XMLFILE are not set: run test/fault/campaign\n");
        return 2;
    }
    if (!options.schedule.empty()) {
        std::ifstream file(options.schedule);
        if (!file) throw std::runtime_error("cannot read " + options.schedule);
        return play_one(parse_schedule(std::string(std::istreambuf_iterator<char>(file), {})), options);
    }
    if (options.seed) return play_one(generate(*options.seed), options);
    return play_many(options);
}

}  // namespace
}  // namespace railyard::fault

int main(int argc, char** argv) {
    railyard::fault::Options options;
    CLI::App app("Random work under random faults on simulated NICs; every byte and every end is checked.");
    app.add_option("--first-seed", options.first_seed, "the first of the seeds")->capture_default_str();
    app.add_option("--seeds", options.seeds, "how many")->capture_default_str();
    app.add_option("--minutes", options.minutes, "no further seed after that time; 0: all of them");
    app.add_option("--seed", options.seed, "play this one alone, and say what happens");
    app.add_option("--schedule", options.schedule, "play the schedule in this file, and say what happens");
    app.add_flag("--print", options.print, "with --seed or --schedule: only print the schedule");
    app.add_flag("--shrink,!--no-shrink", options.shrink, "make failing schedules small (default)");
    app.add_option("--shrink-seconds", options.shrink_seconds, "for one of them")->capture_default_str();
    app.add_option("--limit", options.limit_seconds, "of every wait, s")->capture_default_str();
    app.add_option("--most-failures", options.most_failures, "end after so many")->capture_default_str();
    app.add_option("--log-level", options.log_level, "of the engines")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        return railyard::fault::run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "campaign: %s\n", error.what());
        return 2;
    }
}
