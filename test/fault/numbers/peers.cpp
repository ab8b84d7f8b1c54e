// Peers that are killed, stopped and restarted: each is a process of its own.
#include <signal.h>

#include <algorithm>

#include "far_side.h"
#include "measure.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t size = std::size_t{16} << 20;

PeerState state_of(const Engine& engine, const std::string& agent) {
    for (const PeerReport& peer : engine.peers()) {
        if (peer.agent == agent) return peer.state;
    }
    throw std::runtime_error(agent + " is not known");
}

std::unique_ptr<FarSide> start(Engine& engine, const Plan& plan, const std::string& agent,
                               std::size_t bytes = size) {
    auto made = std::make_unique<FarSide>(engine, plan.fabric, agent, bytes);
    made->meet();
    return made;
}

/// From the kill to the end of the last transfer that had bytes to move. Negative: all were over before.
double killed_in_flight(Engine& engine, FarSide& victim) {
    std::vector<Transfer*> flight;
    for (int i = 0; i < 4; ++i)
        flight.push_back(victim.prepare(i % 2 ? Operation::read : Operation::write, size));
    for (Transfer* transfer : flight)
        require_ok(finish(engine, *transfer), "a transfer to a healthy peer");
    for (Transfer* transfer : flight)
        engine.post(*transfer);
    const auto killed = Clock::now();
    victim.process->send_signal(SIGKILL);
    double last = -1;
    for (Transfer* transfer : flight) {
        Status status = Status::in_progress;
        until(
            "the end of a transfer to a killed peer",
            [&] { return (status = engine.poll(*transfer)) != Status::in_progress; },
            [&] { engine.progress(); });
        if (status == Status::ok) continue;
        if (status != Status::remote_disconnect) require_ok(status, "a transfer to a killed peer");
        last = ms_since(killed);
    }
    return last;
}

/// From the kill to the state `gone`, after which a post ends at once.
double killed_idle(Engine& engine, FarSide& victim) {
    Transfer* transfer = victim.prepare(Operation::write, 4096);
    require_ok(finish(engine, *transfer), "a transfer to a healthy peer");
    until(
        "a peer that is ready", [&] { return state_of(engine, victim.name) == PeerState::ready; },
        [&] { engine.progress(); });
    const auto killed = Clock::now();
    victim.process->send_signal(SIGKILL);
    until(
        "the end of an idle peer", [&] { return state_of(engine, victim.name) == PeerState::gone; },
        [&] { engine.progress(); });
    if (engine.post(*transfer) != Status::remote_disconnect)
        throw std::runtime_error("a post to a peer that is gone did not end at once");
    return ms_since(killed);
}

/// A black hole: nothing is refused, nothing is answered, by its process or its NICs.
double silenced(Engine& engine, FarSide& victim, bool simulated) {
    simefa::Control machine;
    Transfer* transfer = victim.prepare(Operation::read, size);
    require_ok(finish(engine, *transfer), "a transfer to a healthy peer");
    engine.post(*transfer);
    if (simulated) {
        machine.set("timeout_ms=20000");
        machine.set("link=down");
    }
    victim.process->send_signal(SIGSTOP);
    const auto stopped = Clock::now();
    Status status = Status::in_progress;
    until(
        "the end of a transfer to a silent peer",
        [&] { return (status = engine.poll(*transfer)) != Status::in_progress; }, [&] { engine.progress(); });
    const double took = ms_since(stopped);
    machine.reset();
    victim.process->send_signal(SIGKILL);
    if (status == Status::ok) return -1;
    if (status != Status::remote_disconnect) require_ok(status, "a transfer to a silent peer");
    return took;
}

}  // namespace

json peer_death(const Plan& plan) {
    ParamMap params;
    if (plan.how == "silent") params["peer_timeout_ms"] = std::to_string(silent_timeout_ms);
    const auto engine = make_engine("alpha", plan.fabric, params);
    const bool simulated = plan.fabric.provider.starts_with("efa");
    std::vector<double> times;
    for (unsigned round = 0; times.size() < plan.rounds && round < 2 * plan.rounds; ++round) {
        const auto victim = start(*engine, plan, "beta" + std::to_string(round));
        const double took = plan.how == "flight" ? killed_in_flight(*engine, *victim)
                            : plan.how == "idle" ? killed_idle(*engine, *victim)
                                                 : silenced(*engine, *victim, simulated);
        if (took >= 0) times.push_back(took);
        engine->disconnect(victim->name);
    }
    return {{"ms", times}, {"peer_timeout_ms", silent_timeout_ms}};
}

json peer_restart(const Plan& plan) {
    const auto engine = make_engine("alpha", plan.fabric);
    std::unique_ptr<FarSide> before;
    std::vector<double> times;
    while (times.size() < plan.rounds) {
        auto now = std::make_unique<FarSide>(*engine, plan.fabric, "beta", size);
        const auto back = Clock::now();
        now->meet();
        require_ok(finish(*engine, *now->prepare(Operation::write, 1 << 20)), "a transfer to a new instance");
        if (before) times.push_back(ms_since(back));
        now->process->send_signal(SIGKILL);
        before = std::move(now);
    }
    return {{"ms", times}};
}

/// Alternating slices of a second: a stream of transfers to one peer, and a transfer to another that lives,
/// or that is killed with it under way and posted to ever after.
json neighbour(const Plan& plan) {
    simefa::Control machine;
    if (plan.fabric.provider.starts_with("efa")) machine.set("rate_gbps=0.5");
    const auto engine = make_engine("alpha", plan.fabric);
    constexpr std::size_t piece = std::size_t{1} << 20;
    const auto healthy = start(*engine, plan, "gamma");
    std::vector<Transfer*> stream;
    for (int i = 0; i < 4; ++i) {
        stream.push_back(healthy->prepare(Operation::write, piece));
        require_ok(finish(*engine, *stream.back()), "a transfer to a healthy peer");
    }
    std::vector<double> calm, dying;
    for (unsigned slice = 0; slice < 2 * plan.rounds; ++slice) {
        const bool dies = slice % 2 == 1;
        const auto other = start(*engine, plan, "beta" + std::to_string(slice));
        Transfer* aside = other->prepare(Operation::write, piece);
        require_ok(finish(*engine, *aside), "a transfer to a healthy peer");
        for (Transfer* transfer : stream)
            engine->post(*transfer);
        engine->post(*aside);
        if (dies) other->process->send_signal(SIGKILL);
        std::uint64_t moved = 0;
        const auto begin = Clock::now();
        auto again = begin + milliseconds(10);
        while (Clock::now() < begin + milliseconds(1000)) {
            for (Transfer* transfer : stream) {
                const Status status = engine->poll(*transfer);
                if (status == Status::in_progress) continue;
                require_ok(status, "a transfer to a healthy peer");
                moved += piece;
                engine->post(*transfer);
            }
            const bool over = engine->poll(*aside) != Status::in_progress;
            if (!dies || !over || Clock::now() < again) continue;
            engine->post(*aside);
            again += milliseconds(10);
        }
        (dies ? dying : calm).push_back(static_cast<double>(moved) / ms_since(begin));
        for (Transfer* transfer : stream)
            until(
                "the end of a slice", [&] { return engine->poll(*transfer) != Status::in_progress; }, [] {});
        until(
            "the end of a slice", [&] { return engine->poll(*aside) != Status::in_progress; }, [] {});
        engine->disconnect(other->name);
    }
    return {{"calm", calm}, {"dying", dying}};
}

}  // namespace railyard::test
