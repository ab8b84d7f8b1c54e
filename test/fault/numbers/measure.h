// What the measurements of one run share. Each returns JSON: times as lists in milliseconds, counts as they
// are. They throw std::exception's children where something did not work at all.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "control.h"
#include "one_engine.h"

namespace railyard::test {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Plan {
    Fabric fabric{"tcp", 1, false};
    std::string how;       ///< of a measurement that has several ways
    unsigned rounds = 20;  ///< or slices
    unsigned count = 1000;
};

json rail_death(const Plan& plan);    ///< how: error, link. Detection to the transfer's end
json link_return(const Plan& plan);   ///< link up to the first transfer
json peer_death(const Plan& plan);    ///< how: flight, stream, idle, silent. The fault to the error
json peer_restart(const Plan& plan);  ///< new metadata to the first transfer
json neighbour(const Plan& plan);  ///< how: killed, silent, nothing. Bytes/ms to one peer, calm and meanwhile
json plain_writes(const Plan& plan);   ///< a notified write after few and after `count` plain ones
json many_messages(const Plan& plan);  ///< `count` notifications of 20 kB from `rounds` threads
json cycles(const Plan& plan);         ///< heap bytes that `count` connections made and ended leave

/// Peers give up after so long in `silent`; the row's bound depends on it.
inline constexpr unsigned silent_timeout_ms = 500;

inline double ms_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double, std::milli>(end - start).count();
}
inline double ms_since(Clock::time_point start) {
    return ms_between(start, Clock::now());
}

/// Calls `step` until `over`; throws, naming `what`, where that takes half a minute.
template <class Over, class Step>
void until(const char* what, Over over, Step step) {
    const auto limit = Clock::now() + std::chrono::seconds(30);
    while (!over()) {
        if (Clock::now() > limit) throw std::runtime_error(std::string(what) + ": not within 30 s");
        step();
    }
}

/// Posts and polls with `step` in between; the transfer's end.
template <class Step>
Status finish(Engine& engine, Transfer& transfer, Step step) {
    Status status = engine.post(transfer);
    until(
        "a transfer's end",
        [&] {
            return (status = status == Status::in_progress ? engine.poll(transfer) : status) !=
                   Status::in_progress;
        },
        step);
    return status;
}
inline Status finish(Engine& engine, Transfer& transfer) {
    return finish(engine, transfer, [] {});
}

inline void require_ok(Status status, const char* what) {
    if (status != Status::ok) throw std::runtime_error(std::string(what) + ": " + to_string(status));
}

/// Two engines in this process, driven by whoever calls in, and WRITEs from `a` to `b`.
struct NearPair {
    NearPair(const Fabric& fabric, std::size_t size, const ParamMap& of_a = {}, const ParamMap& of_b = {})
        : a(make_engine("alpha", fabric, of_a)),
          b(make_engine("beta", fabric, of_b)),
          source(*a, size),
          target(*b, size) {
        meet();
        b->load_connection_info("alpha", a->connection_info());
        fill_pattern(source.bytes, 1);
    }
    ~NearPair() {
        a.reset();  // what is under way may still write to the buffers
        b.reset();
    }
    NearPair(const NearPair&) = delete;
    NearPair& operator=(const NearPair&) = delete;

    void meet() {
        a->load_connection_info("beta", b->connection_info());
        remote = a->load_remote_memory("beta", b->memory_metadata(*target.region), target.address(),
                                       target.bytes.size());
    }
    Transfer* prepare(std::size_t length, std::optional<std::string_view> notification = std::nullopt) {
        const LocalDescriptor from = source.local(0, length);
        const RemoteDescriptor to{target.address(), length, &remote};
        return a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", notification);
    }
    void drive() {
        a->progress();
        b->progress();
    }
    Status run(Transfer& transfer) {
        return finish(*a, transfer, [this] { b->progress(); });
    }

    std::unique_ptr<Engine> a, b;
    Buffer source, target;
    std::shared_ptr<RemoteRegion> remote;
};

}  // namespace railyard::test
