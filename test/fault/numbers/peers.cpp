// Peers that are killed, stopped and restarted: each is a process of its own.
#include <signal.h>

#include <algorithm>

#include "far_side.h"
#include "measure.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t transfer_size = std::size_t{16} << 20;

PeerState state_of(const Engine& engine, const std::string& agent) {
    for (const PeerReport& peer : engine.peers()) {
        if (peer.agent == agent) return peer.state;
    }
    throw std::runtime_error(agent + " is not known");
}

std::unique_ptr<FarSide> start(Engine& engine, const Plan& plan, const std::string& agent,
                               std::size_t bytes = transfer_size) {
    auto made = std::make_unique<FarSide>(engine, plan.fabric, agent, bytes);
    made->meet();
    return made;
}

/// A black hole: nothing is refused, nothing is answered, by its process or its NICs.
void silence(FarSide& victim, simefa::Control* machine) {
    if (machine) {
        machine->set("timeout_ms=20000");
        machine->set("link=down", {victim.name, "*"});
    }
    victim.process->send_signal(SIGSTOP);
}

ParamMap params_of(const Plan& plan) {
    if (plan.how != "silent") return {};
    return {{"peer_timeout_ms", std::to_string(silent_timeout_ms)}};
}

/// From the kill, or on simulated NICs from the pass over the rails that brings the first error, to the end
/// of the last transfer that had bytes to move. Negative: all were over before. `again`: what succeeds is
/// posted again, where transfers do not last (shm copies them within a call).
double killed_in_flight(Engine& engine, FarSide& victim, bool again, simefa::Control* machine) {
    if (machine) machine->set("rate_gbps=4");  // each rail has its share under way
    std::vector<Transfer*> flight;
    for (int i = 0; i < 4; ++i)
        flight.push_back(victim.prepare(i % 2 ? Operation::read : Operation::write, transfer_size));
    for (Transfer* transfer : flight)
        require_ok(finish(engine, *transfer), "a transfer to a healthy peer");
    for (Transfer* transfer : flight)
        engine.post(*transfer);
    const std::uint64_t errors = machine ? machine->counter("errors") : 0;
    auto told = Clock::now();
    victim.process->send_signal(SIGKILL);
    if (machine)
        until(
            "the first error", [&] { return machine->counter("errors") > errors; },
            [&] {
                told = Clock::now();
                engine.progress();
            });
    double last = -1;
    for (Transfer* transfer : flight) {
        Status status = Status::in_progress;
        until(
            "the end of a transfer to a killed peer",
            [&] {
                status = engine.poll(*transfer);
                if (again && status == Status::ok) status = engine.post(*transfer);
                return status != Status::in_progress && !(again && status == Status::ok);
            },
            [&] { engine.progress(); });
        if (status == Status::ok) continue;
        if (status != Status::remote_disconnect) require_ok(status, "a transfer to a killed peer");
        last = ms_since(told);
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

double silenced(Engine& engine, FarSide& victim, simefa::Control* machine) {
    Transfer* transfer = victim.prepare(Operation::read, transfer_size);
    require_ok(finish(engine, *transfer), "a transfer to a healthy peer");
    engine.post(*transfer);
    silence(victim, machine);
    const auto stopped = Clock::now();
    Status status = Status::in_progress;
    until(
        "the end of a transfer to a silent peer",
        [&] { return (status = engine.poll(*transfer)) != Status::in_progress; }, [&] { engine.progress(); });
    const double took = ms_since(stopped);
    if (machine) machine->reset();
    victim.process->send_signal(SIGKILL);
    if (status == Status::ok) return -1;
    if (status != Status::remote_disconnect) require_ok(status, "a transfer to a silent peer");
    return took;
}

constexpr std::size_t piece = std::size_t{1} << 20;
constexpr milliseconds warm_up{100};
constexpr milliseconds slice_time{1000};

/// Transfers to one peer, posted again as they end.
class Stream {
  public:
    Stream(Engine& engine, FarSide& peer) : engine_(engine) {
        for (int i = 0; i < 4; ++i) {
            transfers_.push_back(peer.prepare(Operation::write, piece));
            require_ok(finish(engine_, *transfers_.back()), "a transfer to a healthy peer");
        }
    }
    void start() {
        for (Transfer* transfer : transfers_)
            engine_.post(*transfer);
    }
    /// Bytes a millisecond; `step` in between.
    template <class Step>
    double run(milliseconds time, Step step) {
        std::uint64_t moved = 0;
        const auto begin = Clock::now();
        while (Clock::now() < begin + time) {
            for (Transfer* transfer : transfers_) {
                const Status status = engine_.poll(*transfer);
                if (status == Status::in_progress) continue;
                require_ok(status, "a transfer to a healthy peer");
                moved += piece;
                engine_.post(*transfer);
            }
            step();
        }
        return static_cast<double>(moved) / ms_since(begin);
    }
    void stop() {
        for (Transfer* transfer : transfers_)
            until(
                "the end of a slice", [&] { return engine_.poll(*transfer) != Status::in_progress; }, [] {});
    }

  private:
    Engine& engine_;
    std::vector<Transfer*> transfers_;
};

/// A transfer to another peer, which lives, or not for long, and is posted to ever after.
class Aside {
  public:
    Aside(Engine& engine, FarSide& peer)
        : engine_(engine), peer_(peer), transfer_(*peer.prepare(Operation::write, piece)) {
        require_ok(finish(engine_, transfer_), "a transfer to a healthy peer");
    }
    void begin(const std::string& how, simefa::Control* machine) {
        trouble_ = how != "nothing";
        engine_.post(transfer_);
        if (how == "silent") silence(peer_, machine);
        if (how == "killed") peer_.process->send_signal(SIGKILL);
        next_ = Clock::now() + pause;
    }
    void again() {
        const Status status = engine_.poll(transfer_);
        seen_ = seen_ || status == Status::remote_disconnect;
        if (!trouble_ || status == Status::in_progress || Clock::now() < next_) return;
        seen_ = engine_.post(transfer_) == Status::remote_disconnect || seen_;  // it is known to be gone
        next_ += pause;
    }
    void end() {
        if (trouble_) peer_.process->send_signal(SIGKILL);
        until(
            "the end of a slice", [&] { return engine_.poll(transfer_) != Status::in_progress; }, [] {});
        // Killed idle and posted to before that was found out, it ends behind the slice.
        seen_ = seen_ || engine_.poll(transfer_) == Status::remote_disconnect;
        if (seen_ != trouble_)
            throw std::runtime_error(peer_.name +
                                     " did not end as it should: " + to_string(engine_.poll(transfer_)));
    }

  private:
    static constexpr milliseconds pause{10};
    Engine& engine_;
    FarSide& peer_;
    Transfer& transfer_;
    Clock::time_point next_;
    bool trouble_ = false, seen_ = false;
};

}  // namespace

json peer_death(const Plan& plan) {
    const auto engine = make_engine("alpha", plan.fabric, params_of(plan));
    const bool simulated = plan.fabric.provider.starts_with("efa");
    simefa::Control machine;
    std::vector<double> times;
    for (unsigned round = 0; times.size() < plan.rounds && round < 2 * plan.rounds; ++round) {
        const auto victim = start(*engine, plan, "beta" + std::to_string(round));
        simefa::Control* const nics = simulated ? &machine : nullptr;
        const double took = plan.how == "silent" ? silenced(*engine, *victim, nics)
                            : plan.how == "idle"
                                ? killed_idle(*engine, *victim)
                                : killed_in_flight(*engine, *victim, plan.how == "stream", nics);
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
        auto now = std::make_unique<FarSide>(*engine, plan.fabric, "beta", transfer_size);
        const auto back = Clock::now();
        now->meet();
        require_ok(finish(*engine, *now->prepare(Operation::write, 1 << 20)), "a transfer to a new instance");
        if (before) times.push_back(ms_since(back));
        now->process->send_signal(SIGKILL);
        before = std::move(now);
    }
    return {{"ms", times}};
}

/// Slices of a second without and with what `how` says, alternating; every other pair the other way round.
/// Where a peer is killed in the one, a process that nobody knows is killed in the other: the kernel takes
/// both down on the cores that the slices run on, which on other machines than these is not the sender's.
json neighbour(const Plan& plan) {
    const std::string how = plan.how.empty() ? "killed" : plan.how;
    if (how != "killed" && how != "silent" && how != "nothing")
        throw std::runtime_error("--how is killed, silent or nothing, not " + how);
    simefa::Control machine;
    const bool simulated = plan.fabric.provider.starts_with("efa");
    if (simulated) machine.set("rate_gbps=0.5");
    const auto engine = make_engine("alpha", plan.fabric, params_of(plan));
    const auto healthy = start(*engine, plan, "gamma");
    Stream stream(*engine, *healthy);
    std::vector<double> calm, troubled;
    for (unsigned slice = 0; slice < 2 * plan.rounds; ++slice) {
        const bool trouble = slice % 4 == 1 || slice % 4 == 2;
        const auto other = start(*engine, plan, "beta" + std::to_string(slice));
        Aside aside(*engine, *other);
        std::unique_ptr<FarSide> stranger;
        if (how == "killed" && !trouble)
            stranger = std::make_unique<FarSide>(*engine, plan.fabric, "stranger", transfer_size);
        stream.start();
        stream.run(warm_up, [] {});
        if (stranger) stranger->process->send_signal(SIGKILL);
        aside.begin(trouble ? how : "nothing", simulated ? &machine : nullptr);
        (trouble ? troubled : calm).push_back(stream.run(slice_time, [&] { aside.again(); }));
        aside.end();
        stream.stop();
        engine->disconnect(other->name);
    }
    return {{"calm", calm}, {"troubled", troubled}};
}

}  // namespace railyard::test
