// What a host's calls cost, in things that can be counted: registrations, preparations, posts and polls,
// where there are so many rails, descriptors, peers and regions. Two agents of this process over the plugin.
// Prints, as JSON, how often each was called, and the allocations that a call made (those of the host and of
// the provider among them). Under callgrind each of the functions `measured_*` is a part of its own;
// benchmark/ratchet.py counts the plugin's instructions there.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/clock.h"
#include "fabric/info.h"
#include "host/agent.h"

#include "../../test/allocation_counter.h"

namespace railyard {
namespace {

using host::Agent;
using host::Range;
using host::Request;

struct Setting {
    std::string plugins, provider = "efa-direct";
    unsigned rails = 1, descriptors = 64, peers = 1, regions = 1, calls = 16;
    std::uint64_t size = 8, region_size = 4096;
    bool same = false, register_only = false;
};

constexpr std::uint64_t region_step = 64;  // between the regions that are only there

/// An agent with one region for transfers, and the memory of others.
struct Side {
    Side(const Setting& setting, const std::string& name, unsigned rails, std::uint64_t bytes)
        : memory(bytes, 'x'),
          others((setting.regions + setting.calls) * region_step + setting.region_size),
          step(setting.same ? 0 : region_step),
          region_size(setting.region_size) {
        host::AgentConfig config;
        config.name = name;
        config.plugin_dir = setting.plugins;
        config.progress_thread = false;  // what one did would come by chance
        config.params = {{"provider", setting.provider},
                         {"rails", std::to_string(rails)},
                         {"max_bw_per_dram_seg", "1000000"},
                         {"keepalive_ms", "0"},
                         {"peer_timeout_ms", "600000"}};  // under callgrind everything takes long
        agent = std::make_unique<Agent>(config);
        agent->register_memory({base(), memory.size(), 0});
    }
    [[nodiscard]] std::uint64_t base() const { return reinterpret_cast<std::uint64_t>(memory.data()); }
    [[nodiscard]] Range other(unsigned i) const {
        return {reinterpret_cast<std::uint64_t>(others.data()) + i * step, region_size, 0};
    }
    std::vector<char> memory, others;
    std::uint64_t step, region_size;
    std::unique_ptr<Agent> agent;
};

void require(Status status) {
    if (status != Status::ok) throw Error(status, "a transfer failed");
}

Request prepare(Side& from, const Side& to, unsigned descriptors, std::uint64_t size) {
    std::vector<Range> local, remote;
    for (std::uint64_t i = 0; i < descriptors; ++i) {
        local.push_back({from.base() + i * size, size, 0});
        remote.push_back({to.base() + i * size, size, 0});
    }
    return from.agent->prepare(host::Op::write, local, remote, to.agent->name());
}

/// The peer has to look, too, until it knows us.
void run(Request& request, Side& to) {
    Status status = request.post();
    while (status == Status::in_progress) {
        to.agent->notifications();
        status = request.poll();
    }
    require(status);
}

/// Lets the NICs get on. What callgrind collects is turned off by any function whose name has the others' in
/// it.
[[gnu::noinline]] void between_measured_polls() {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

[[gnu::noinline]] void measured_registrations(Side& side, unsigned first, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        side.agent->register_memory(side.other(first + i));
}

[[gnu::noinline]] void measured_preparations(std::vector<Request>& made, Side& from, const Side& to,
                                             const Setting& setting) {
    for (unsigned i = 0; i < setting.calls; ++i)
        made.push_back(prepare(from, to, setting.descriptors, setting.size));
}

[[gnu::noinline]] void measured_posts(Request& request, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        Status status = request.post();
        while (status == Status::in_progress) {
            between_measured_polls();
            status = request.poll();
        }
        require(status);
    }
}

template <class Body>
long allocations_in(Body&& body) {
    allocations.store(0);
    counting.store(true);
    body();
    counting.store(false);
    return allocations.load();
}

nlohmann::json measure_registrations(Side& side, const Setting& setting) {
    const std::uint64_t begin = now_ns();
    const long made = allocations_in([&] { measured_registrations(side, setting.regions, setting.calls); });
    const auto took = static_cast<double>(now_ns() - begin);
    return {{"register_us", took / 1e3 / setting.calls}, {"register_allocations", made}};
}

nlohmann::json measure(const Setting& setting) {
    const std::uint64_t bytes = setting.size * setting.descriptors;
    Side from(setting, "from", setting.rails, bytes);
    if (setting.register_only) return measure_registrations(from, setting);
    Side to(setting, "to", setting.rails, bytes);
    std::vector<std::unique_ptr<Side>> peers;
    for (unsigned i = 1; i < setting.peers; ++i) {
        Side& peer =
            *peers.emplace_back(std::make_unique<Side>(setting, "peer" + std::to_string(i), 1, setting.size));
        from.agent->load_peer(peer.agent->metadata());
        peer.agent->load_peer(from.agent->metadata());
        Request request = prepare(from, peer, 1, setting.size);
        run(request, peer);
    }
    for (unsigned i = 1; i < setting.regions; ++i)
        from.agent->register_memory(from.other(i));
    from.agent->load_peer(to.agent->metadata());
    to.agent->load_peer(from.agent->metadata());
    Request request = prepare(from, to, setting.descriptors, setting.size);
    for (int i = 0; i < 3; ++i)
        run(request, to);
    std::vector<Request> made;
    made.reserve(setting.calls);
    nlohmann::json seen = measure_registrations(from, setting);
    const long preparing = allocations_in([&] { measured_preparations(made, from, to, setting); });
    const long posting = allocations_in([&] { measured_posts(request, setting.calls); });
    if (to.memory != from.memory) throw Error(Status::backend, "the bytes are not the same");
    const unsigned version = fi_version();
    seen.update({{"compiler", __VERSION__},
                 {"libfabric", std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version))},
                 {"calls", setting.calls},
                 {"descriptors", setting.descriptors},
                 {"prepare_allocations", preparing},
                 {"post_allocations", posting}});
    return seen;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Setting setting;
    CLI::App app{"Counts what the calls of a host cost."};
    app.add_option("--plugins", setting.plugins, "Directory of libplugin_RAILYARD.so")->required();
    app.add_option("--provider", setting.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", setting.rails, "Number of rails")->capture_default_str();
    app.add_option("--descriptors", setting.descriptors, "Descriptors of a transfer")->capture_default_str();
    app.add_option("--size", setting.size, "Bytes of each")->capture_default_str();
    app.add_option("--peers", setting.peers, "Peers that are known and have been written to")
        ->capture_default_str();
    app.add_option("--regions", setting.regions, "Regions that are registered")->capture_default_str();
    app.add_option("--region-size", setting.region_size, "Bytes of each of these")->capture_default_str();
    app.add_flag("--same", setting.same, "These regions are one and the same range");
    app.add_flag("--register-only", setting.register_only,
                 "Nothing but registrations; also with providers whose peers must look");
    app.add_option("--calls", setting.calls, "How often each is called")->capture_default_str();
    CLI11_PARSE(app, count, words);
    try {
        std::printf("%s\n", railyard::measure(setting).dump().c_str());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "path-cost: %s\n", error.what());
        return 1;
    }
}
