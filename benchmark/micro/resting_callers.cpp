// Posts much over many rails and leaves it to the progress threads: engines with one and with several of
// them take turns. Prints, as JSON, the descriptors of a second that each carried, median of its turns.
#include <sys/resource.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "common/clock.h"
#include "median.h"
#include "side.h"

namespace railyard {
namespace {

using bench::median;
using bench::require;

constexpr std::uint64_t patience_ns = 20'000'000'000;

struct Setting {
    std::string provider = "efa-direct";
    unsigned rails = 32;
    std::vector<std::string> threads{"1", "2"};
    std::uint64_t descriptors = 16384;  ///< of a transfer
    std::uint64_t size = 4096;          ///< of a descriptor
    std::uint64_t window = 256 << 10;   ///< bytes that they all lie in
    unsigned transfers = 8;             ///< at once
    unsigned turns = 7;
    double seconds = 0.7;
    unsigned rest_us = 300;
    bool polls = false;
    std::string stripe = "256K";
};

struct Pair {
    Pair(const Setting& setting, const std::string& threads)
        : from("initiator" + threads, params_of(setting, threads), setting.window, true),
          to("target" + threads, setting.provider, setting.rails, setting.window, false),
          name("target" + threads) {
        remote = from.meet(name, to);
        std::vector<LocalDescriptor> local;
        std::vector<RemoteDescriptor> remotes;
        for (std::uint64_t i = 0; i < setting.descriptors; ++i) {
            const std::uint64_t offset = i * setting.size % (setting.window - setting.size + 1);
            local.push_back({from.base() + offset, setting.size, &from.region});
            remotes.push_back({to.base() + offset, setting.size, &remote});
        }
        for (unsigned i = 0; i < setting.transfers; ++i)
            transfers.push_back(from.engine->prepare(Operation::write, local, remotes, name, std::nullopt));
    }
    static ParamMap params_of(const Setting& setting, const std::string& threads) {
        ParamMap params = bench::Side::params_of(setting.provider, setting.rails);
        params.insert({{"progress_threads", threads}, {"stripe_threshold", setting.stripe}});
        return params;
    }
    ~Pair() {
        for (Transfer* transfer : transfers)
            from.engine->release(transfer);
    }

    bench::Side from, to;
    std::string name;
    std::shared_ptr<RemoteRegion> remote;
    std::vector<Transfer*> transfers;
    std::vector<double> rates, cpu, caller;
};

double cpu_seconds(int who = RUSAGE_SELF) {
    rusage usage{};
    getrusage(who, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void turn(Pair& pair, const Setting& setting, bool counts) {
    Engine& engine = *pair.from.engine;
    const std::uint64_t start = now_ns();
    const auto length = static_cast<std::uint64_t>(setting.seconds * 1e9);
    const double cpu = cpu_seconds(), own = cpu_seconds(RUSAGE_THREAD);
    for (Transfer* transfer : pair.transfers)
        require(engine.post(*transfer));
    std::uint64_t ended = 0;
    while (now_ns() - start < length) {
        for (Transfer* transfer : pair.transfers) {
            const Status status = setting.polls ? engine.poll(*transfer) : engine.look(*transfer);
            require(status);
            if (status == Status::in_progress) continue;
            ++ended;
            require(engine.post(*transfer));
        }
        if (!setting.polls) std::this_thread::sleep_for(std::chrono::microseconds(setting.rest_us));
    }
    const double seconds = static_cast<double>(now_ns() - start) / 1e9;
    const double spent = cpu_seconds() - cpu, spent_own = cpu_seconds(RUSAGE_THREAD) - own;
    // What is under way is let out: the next engine's turn starts with both cores.
    const std::uint64_t limit = now_ns() + patience_ns;
    for (Transfer* transfer : pair.transfers) {
        Status status = engine.look(*transfer);
        while (status == Status::in_progress) {
            if (now_ns() > limit) throw Error(Status::backend, "a transfer does not end");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            pair.to.engine->progress();
            status = engine.look(*transfer);
        }
        require(status);
    }
    if (!counts) return;
    pair.rates.push_back(static_cast<double>(ended * setting.descriptors) / seconds);
    pair.cpu.push_back(spent / seconds);
    pair.caller.push_back(spent_own / seconds);
}

int run(const Setting& setting) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (const std::string& threads : setting.threads)
        pairs.push_back(std::make_unique<Pair>(setting, threads));
    for (unsigned i = 0; i <= setting.turns; ++i) {
        for (const auto& pair : pairs)
            turn(*pair, setting, i > 0);
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto [low, high] = std::minmax_element(pairs[i]->rates.begin(), pairs[i]->rates.end());
        std::printf(
            "%s{\"threads\": \"%s\", \"descriptors_per_second\": %.0f, \"low\": %.0f, \"high\": %.0f, "
            "\"cpu\": %.2f, \"caller\": %.2f}%s",
            i ? " " : "[", setting.threads[i].c_str(), median(pairs[i]->rates), *low, *high,
            median(pairs[i]->cpu), median(pairs[i]->caller), i + 1 == pairs.size() ? "]\n" : ",\n");
    }
    return 0;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Setting setting;
    CLI::App app{"What do progress threads carry while callers rest?"};
    app.add_option("--provider", setting.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", setting.rails, "Number of rails")->capture_default_str();
    app.add_option("--threads", setting.threads, "Values of progress_threads")->capture_default_str();
    app.add_option("--descriptors", setting.descriptors, "Descriptors of a transfer")->capture_default_str();
    app.add_option("--size", setting.size, "Bytes of each")->capture_default_str();
    app.add_option("--window", setting.window, "Bytes that they lie in")->capture_default_str();
    app.add_option("--transfers", setting.transfers, "Transfers at once")->capture_default_str();
    app.add_option("--turns", setting.turns, "Turns of each")->capture_default_str();
    app.add_option("--seconds", setting.seconds, "Length of a turn")->capture_default_str();
    app.add_option("--rest-us", setting.rest_us, "Rest between two looks")->capture_default_str();
    app.add_option("--stripe", setting.stripe, "stripe_threshold")->capture_default_str();
    app.add_flag("--polls", setting.polls, "Callers poll");
    CLI11_PARSE(app, count, words);
    try {
        return railyard::run(setting);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "resting-callers: %s\n", error.what());
        return 1;
    }
}
