// Posts one prepared transfer again and again between two engines of one process, and nothing else, for
// counting what a descriptor costs. Prints, as JSON, the number of descriptors that went through, and what an
// engine costs: its creation beyond discovery, and its pinned control memory. Under callgrind,
// `measured_rounds` is the function to collect in; benchmark/simulated.py does that.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "common/clock.h"
#include "fabric/info.h"
#include "rail/control_channel.h"
#include "side.h"

namespace railyard {
namespace {

struct Setting {
    std::string provider = "efa-direct";
    unsigned rails = 1;
    unsigned descriptors = 64;
    std::uint64_t size = 8;
    unsigned rounds = 100;
};

void drive(Engine& engine, Engine& target, Transfer& transfer) {
    Status status = engine.post(transfer);
    while (status == Status::in_progress) {
        status = engine.poll(transfer);
        // The target has nothing to do, but where the provider needs it to look.
        if (status == Status::in_progress) target.progress();
    }
    if (status != Status::ok) throw Error(status, "a transfer failed");
}

/// Lets the NICs get on before the next poll. What callgrind collects is turned on and off again by any
/// function that is named like the one below, so that nothing in here counts.
[[gnu::noinline]] void between_measured_rounds() {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// One post and its polls a round; the target's part is in `drive` before this is reached.
[[gnu::noinline]] void measured_rounds(Engine& engine, Transfer& transfer, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        Status status = engine.post(transfer);
        while (status == Status::in_progress) {
            between_measured_rounds();
            status = engine.poll(transfer);
        }
        if (status != Status::ok) throw Error(status, "a transfer failed");
    }
}

double seconds_since(std::uint64_t start) {
    return static_cast<double>(now_ns() - start) / 1e9;
}

int run(const Setting& setting) {
    static_cast<void>(fabric::discover(setting.provider, {}));  // providers are loaded by the first
    std::uint64_t start = now_ns();
    static_cast<void>(fabric::discover(setting.provider, {}));
    const double discovery = seconds_since(start);
    start = now_ns();
    const std::uint64_t bytes = setting.size * setting.descriptors;
    // Without a progress thread: what one did would not be counted.
    bench::Side from("initiator", setting.provider, setting.rails, bytes, false);
    const double creation = seconds_since(start) - discovery;
    bench::Side to("target", setting.provider, setting.rails, bytes);
    std::fill(to.memory.begin(), to.memory.end(), '.');
    auto remote = from.meet("target", to);
    Transfer* transfer = from.prepare_write("target", to, remote, 0, setting.size, setting.descriptors);
    for (int i = 0; i < 3; ++i)
        drive(*from.engine, *to.engine, *transfer);
    measured_rounds(*from.engine, *transfer, setting.rounds);
    from.engine->release(transfer);
    if (to.memory != from.memory) throw Error(Status::backend, "the bytes are not the same");
    std::printf(
        "{\"rails\": %zu, \"descriptors\": %llu, \"creation_seconds\": %.6f, "
        "\"control_bytes_per_rail\": %zu}\n",
        from.engine->rail_count(), static_cast<unsigned long long>(setting.descriptors) * setting.rounds,
        creation, ControlChannel::pinned_bytes);
    return 0;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Setting setting;
    CLI::App app{"Posts one transfer again and again, for counting what a descriptor costs."};
    app.add_option("--provider", setting.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", setting.rails, "Number of rails")->capture_default_str();
    app.add_option("--descriptors", setting.descriptors, "Descriptors of the transfer")
        ->capture_default_str();
    app.add_option("--size", setting.size, "Bytes of each")->capture_default_str();
    app.add_option("--rounds", setting.rounds, "How often to post it")->capture_default_str();
    CLI11_PARSE(app, count, words);
    try {
        return railyard::run(setting);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "descriptor-cost: %s\n", error.what());
        return 1;
    }
}
