// Rails that die under a transfer, and links that come back, on the simulated EFA machine.
#include <optional>

#include "measure.h"

namespace railyard::test {
namespace {

constexpr const char* nics_of_a = "rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0";
constexpr const char* nics_of_b = "rdmap96s0,rdmap97s0,rdmap98s0,rdmap99s0";
constexpr std::size_t striped_size = std::size_t{8} << 20;
const simefa::NicPattern dying{"*", "rdmap79s0"};

/// NICs have a rate, so that each carries its share, and do not wait long for what never comes: what is
/// measured starts when they have said so.
void calm(simefa::Control& machine) {
    machine.reset();
    machine.set("rate_gbps=4");
    machine.set("timeout_ms=20");
}

bool all_paths_work(Engine& engine) {
    for (const PeerReport& peer : engine.peers()) {
        if (peer.failed != 0 || peer.state != PeerState::ready) return false;
    }
    return true;
}

/// From the pass over the rails that brings the first error to the transfer's end. Empty: it was over before.
std::optional<double> survive(simefa::Control& machine, NearPair& pair, Transfer& transfer,
                              const std::string& how) {
    const std::uint64_t sent = machine.counter("bytes_out", dying);
    const std::uint64_t errors = machine.counter("errors", dying);
    Status status = pair.a->post(transfer);
    until(
        "the middle of a transfer", [&] { return machine.counter("bytes_out", dying) > sent + (64 << 10); },
        [&] { status = pair.a->poll(transfer); });
    if (status != Status::in_progress) return std::nullopt;
    if (how == "link") {
        machine.set("link=down", dying);
    } else {
        machine.set("error_code=13", dying);
        machine.set("error_next=1", dying);
    }
    std::optional<Clock::time_point> detected;
    until(
        "a transfer's end over the other rails", [&] { return status != Status::in_progress; },
        [&] {
            const auto before = Clock::now();
            status = pair.a->poll(transfer);
            if (!detected && machine.counter("errors", dying) > errors) detected = before;
            pair.b->progress();
        });
    require_ok(status, "a transfer over the other rails");
    if (!detected) return std::nullopt;
    return ms_since(*detected);
}

}  // namespace

json rail_death(const Plan& plan) {
    simefa::Control machine;
    calm(machine);
    NearPair pair(plan.fabric, striped_size, {{"devices", nics_of_a}}, {{"devices", nics_of_b}});
    Transfer* transfer = pair.prepare(striped_size);
    std::vector<double> times;
    for (unsigned round = 0; times.size() < plan.rounds && round < 2 * plan.rounds; ++round) {
        calm(machine);
        until(
            "all rails in order", [&] { return all_paths_work(*pair.a); },
            [&] {
                require_ok(pair.run(*transfer), "a calm transfer");
                pair.drive();
            });
        fill_pattern(pair.source.bytes, round);
        std::fill(pair.target.bytes.begin(), pair.target.bytes.end(), std::uint8_t{0});
        const std::optional<double> took = survive(machine, pair, *transfer, plan.how);
        if (!took) continue;
        if (pair.target.bytes != pair.source.bytes) throw std::runtime_error("the bytes are not the same");
        times.push_back(*took);
    }
    pair.a->release(transfer);
    return {{"ms", times}};
}

json link_return(const Plan& plan) {
    simefa::Control machine;
    calm(machine);
    NearPair pair(plan.fabric, striped_size, {{"devices", nics_of_a}}, {{"devices", nics_of_b}});
    Transfer* transfer = pair.prepare(striped_size);
    require_ok(pair.run(*transfer), "a calm transfer");
    std::vector<double> times;
    while (times.size() < plan.rounds) {
        for (const char* nics : {"rdmap79s0", "rdmap8?s0"})
            machine.set("link=down", {"*", nics});
        if (pair.run(*transfer) == Status::ok)
            throw std::runtime_error("a transfer without a link succeeded");
        // Long enough for the pauses between two probes to have grown, and ever different.
        const auto wait = Clock::now() + std::chrono::milliseconds(1500 + 37 * times.size() % 1000);
        until(
            "some time", [&] { return Clock::now() > wait; }, [&] { pair.drive(); });
        calm(machine);
        const auto back = Clock::now();
        until(
            "the first transfer after a link's return", [&] { return pair.run(*transfer) == Status::ok; },
            [&] { pair.drive(); });
        times.push_back(ms_since(back));
    }
    pair.a->release(transfer);
    return {{"ms", times}};
}

}  // namespace railyard::test
