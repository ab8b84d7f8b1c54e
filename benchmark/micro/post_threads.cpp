// Small writes from one thread and from two on one engine, and from two on an engine each, slice by slice in
// turns: how posting and polling scale. Prints, as JSON, the rates (medians of the slices) and their ratios
// (medians of those of each turn). The target is a process of its own, or in this one, where it sleeps.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base64.h"
#include "common/clock.h"
#include "common/thread_tag.h"
#include "fabric/info.h"
#include "forked_side.h"
#include "median.h"
#include "side.h"

namespace railyard {
namespace {

using bench::median;
using bench::require;
using nlohmann::json;

constexpr std::uint64_t patience_ns = 20'000'000'000;
constexpr std::chrono::hours longest_run{1};

struct Setting {
    std::string provider = "efa-direct";
    unsigned rails = 4, descriptors = 1, window = 8, slices = 15;
    std::uint64_t size = 4096;
    double seconds = 0.2;  ///< of a slice
    bool here = false;
    /// Whole pages: no two threads write to one cache line.
    [[nodiscard]] std::uint64_t bytes_of_thread() const {
        constexpr std::uint64_t page = 4096;
        return (size * descriptors * window + page - 1) / page * page;
    }
};

/// Initiators, each with a target of its own: all rails, and either half of them.
struct Part {
    std::string name;
    unsigned index = 0, of = 1, threads = 1;
};
const Part parts[] = {{"shared", 0, 1, 2}, {"first", 0, 2, 1}, {"second", 1, 2, 1}};

/// Rails of one device each are named, those of one device counted.
ParamMap rails_for(const Setting& setting, const Part& part) {
    const unsigned rails = setting.rails / part.of;
    ParamMap params = bench::Side::params_of(setting.provider, rails);
    params["local_rail"] = "off";  // else all of them have one rail, whatever the fabric
    const auto devices = fabric::discover(setting.provider, {});
    if (devices.size() < setting.rails) {
        params["rails_per_device"] = params["rails"];
        params["devices"] = devices.front().name;
        return params;
    }
    std::string names;
    for (unsigned i = 0; i < rails; ++i)
        names += (i ? "," : "") + devices[part.index * rails + i].name;
    params["devices"] = names;
    return params;
}

/// A target for each of the initiators. Their progress threads do what is to be done there.
struct Targets {
    explicit Targets(const Setting& setting) {
        for (const Part& part : parts) {
            const bench::Side& side = *sides.emplace_back(
                std::make_unique<bench::Side>("target of " + part.name, rails_for(setting, part),
                                              part.threads * setting.bytes_of_thread(), true));
            infos.push_back({{"connection", base64_encode(side.engine->connection_info())},
                             {"memory", base64_encode(side.engine->memory_metadata(*side.region))},
                             {"base", side.base()}});
        }
    }
    std::vector<std::unique_ptr<bench::Side>> sides;
    json infos;
};

/// An initiator: an engine, and the handles of each of its threads.
class Poster {
  public:
    Poster(const Setting& setting, const Part& part, const json& target)
        : side_(part.name, rails_for(setting, part), part.threads * setting.bytes_of_thread(), false),
          descriptors_(setting.descriptors) {
        const std::string name = "target of " + part.name;
        const std::uint64_t base = target["base"], block = setting.size * setting.descriptors;
        side_.engine->load_connection_info(name, base64_decode(target["connection"].get<std::string>()));
        remote_ = side_.engine->load_remote_memory(name, base64_decode(target["memory"].get<std::string>()),
                                                   base, part.threads * setting.bytes_of_thread());
        handles_.resize(part.threads);
        for (std::size_t thread = 0; thread < handles_.size(); ++thread) {
            std::uint64_t offset = thread * setting.bytes_of_thread();
            for (unsigned i = 0; i < setting.window; ++i, offset += block) {
                handles_[thread].push_back(side_.prepare_write(
                    name, remote_, {side_.base() + offset, base + offset, setting.size}, descriptors_));
            }
        }
    }
    ~Poster() {
        for (const auto& handles : handles_) {
            for (Transfer* handle : handles)
                side_.engine->release(handle);
        }
    }
    Poster(const Poster&) = delete;
    Poster& operator=(const Poster&) = delete;

    /// Posts each handle again as soon as it is through, until `stop`; returns the operations that ended.
    std::uint64_t drive(unsigned thread, const std::atomic<bool>& stop) {
        Engine& engine = *side_.engine;
        const auto& handles = handles_[thread];
        std::uint64_t ended = 0;
        for (Transfer* handle : handles)
            require(engine.post(*handle));
        while (!stop.load(std::memory_order_relaxed)) {
            for (Transfer* handle : handles) {
                const Status status = engine.poll(*handle);
                if (status == Status::in_progress) continue;
                require(status);
                ++ended;
                require(engine.post(*handle));
            }
        }
        const std::uint64_t limit = now_ns() + patience_ns;
        for (Transfer* handle : handles) {
            while (engine.poll(*handle) == Status::in_progress) {
                if (now_ns() > limit) throw Error(Status::backend, "a transfer does not end");
            }
        }
        return ended * descriptors_;
    }

    /// How often its threads have met on a rail, or taken one from each other.
    [[nodiscard]] std::uint64_t meetings() const {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : side_.engine->rail_counters())
            sum += rail.contended + rail.leases_ended;
        return sum;
    }

  private:
    bench::Side side_;
    const unsigned descriptors_;
    std::shared_ptr<RemoteRegion> remote_;
    std::vector<std::vector<Transfer*>> handles_;
};

/// Operations a second that all `work` did together.
double rate(double seconds, const std::vector<std::pair<Poster*, unsigned>>& work) {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> ended{0};
    std::vector<std::thread> threads;
    const std::uint64_t start = now_ns();
    for (const auto& [poster, index] : work) {
        threads.emplace_back([&stop, &ended, poster = poster, index = index] {
            try {
                ended += poster->drive(index, stop);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "post-threads: %s\n", error.what());
                std::_Exit(1);
            }
        });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    const double taken = static_cast<double>(now_ns() - start) / 1e9;
    for (std::thread& thread : threads)
        thread.join();
    return static_cast<double>(ended) / taken;
}

/// What a cache line takes from one thread to another while both look at it: 50 to 70 ns on cores of one L3
/// cache, several times that on others. The least of some tries: at first both may be on one core, where it
/// takes as long as the scheduler lets each of them spin.
double line_ns() {
    constexpr unsigned tries = 100, trips = 50;
    alignas(2 * cache_line) static std::atomic<std::uint64_t> line;
    static constexpr std::uint64_t over = UINT64_MAX;
    line = 0;
    std::thread other([] {
        for (std::uint64_t seen = 0; seen != over; seen = line.load(std::memory_order_acquire)) {
            if (seen % 2 == 1) line.store(seen + 1, std::memory_order_release);
        }
    });
    std::uint64_t sent = 0, least = UINT64_MAX;
    for (unsigned i = 0; i < tries; ++i) {
        const std::uint64_t start = now_ns();
        for (const std::uint64_t end = sent + 2 * trips; sent < end; sent += 2) {
            line.store(sent + 1, std::memory_order_release);
            while (line.load(std::memory_order_acquire) != sent + 2) {
            }
        }
        least = std::min(least, now_ns() - start);
    }
    line = over;
    other.join();
    return static_cast<double>(least) / (2 * trips);
}

json measure(const Setting& setting, const json& targets) {
    Poster shared(setting, parts[0], targets[0]);
    Poster first(setting, parts[1], targets[1]);
    Poster second(setting, parts[2], targets[2]);
    std::vector<double> one, two, own, scaling, ceiling, met, line;
    for (unsigned slice = 0; slice <= setting.slices; ++slice) {
        one.push_back(rate(setting.seconds, {{&shared, 0}}));
        const std::uint64_t before = shared.meetings();
        two.push_back(rate(setting.seconds, {{&shared, 0}, {&shared, 1}}));
        met.push_back(static_cast<double>(shared.meetings() - before) / (two.back() * setting.seconds));
        own.push_back(rate(setting.seconds, {{&first, 0}, {&second, 0}}));
        scaling.push_back(two.back() / one.back());
        ceiling.push_back(own.back() / one.back());
        line.push_back(line_ns());
        if (slice == 0) one = two = own = scaling = ceiling = met = line = {};  // the peers have met
    }
    return {{"one_thread", median(one)},
            {"two_threads", median(two)},
            {"two_engines", median(own)},
            {"scaling", median(scaling)},
            {"ceiling", median(ceiling)},
            {"of_ceiling", median(two) / median(own)},
            {"meetings_per_operation", median(met)},
            {"line_ns", median(line)}};
}

json measure_over_processes(const Setting& setting) {
    bench::ForkedSide target("the target");
    if (target.child.is_child()) {
        const Targets targets(setting);
        target.control.send({{"targets", targets.infos}});
        static_cast<void>(target.control.receive(longest_run));
        std::exit(0);
    }
    json seen = measure(setting, target.control.receive(std::chrono::seconds(60)).at("targets"));
    target.control.send({{"over", true}});
    target.child.join(std::chrono::seconds(20), true);
    return seen;
}

int run(const Setting& setting) {
    const json seen =
        setting.here ? measure(setting, Targets(setting).infos) : measure_over_processes(setting);
    std::printf("%s\n", seen.dump().c_str());
    return 0;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Setting setting;
    CLI::App app{"How posting and polling small writes scale from one thread to two."};
    app.add_option("--provider", setting.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", setting.rails, "Number of rails, half of them for an engine of its own")
        ->capture_default_str();
    app.add_option("--descriptors", setting.descriptors, "Descriptors of a transfer")->capture_default_str();
    app.add_option("--size", setting.size, "Bytes of each")->capture_default_str();
    app.add_option("--window", setting.window, "Transfers of a thread that are under way")
        ->capture_default_str();
    app.add_option("--seconds", setting.seconds, "Of a slice")->capture_default_str();
    app.add_option("--slices", setting.slices, "Of each kind")->capture_default_str();
    app.add_flag("--here", setting.here,
                 "The target in this process, too: simulated NICs write to its memory as to their own");
    CLI11_PARSE(app, count, words);
    try {
        return railyard::run(setting);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "post-threads: %s\n", error.what());
        return 1;
    }
}
