// Two engines in one process, with a shared way to wait for things: what the conformance suite stands on.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "one_engine.h"
#include "patience.h"

namespace railyard::test {

/// Whether a WRITE, from the second one on, ends with nobody driving the target: shm of libfabric 1 copies
/// straight into the peer. Version 2 does so above 4096 bytes only, and says "sent" for the rest, so there we
/// ask for delivery, which takes the target. On `efa` a rail's first operation takes the target, and nobody
/// knows which of several rails a transfer uses. The host rail asks nobody.
inline bool writes_alone(const Fabric& fabric) {
    return fabric.local_rail || fabric.provider == "efa-direct" ||
           (fabric.provider == "efa" && fabric.rails == 1) ||
           (fabric.provider == "shm" && FI_MAJOR(fi_version()) == 1);
}
inline bool may_write_alone(const Fabric& fabric) {
    return writes_alone(fabric) || fabric.provider == "efa";
}

inline std::string fabric_name(const testing::TestParamInfo<Fabric>& info) {
    std::string name = info.param.provider + "_" + std::to_string(info.param.rails) + "rails_" +
                       (info.param.progress_thread ? "thread" : "inline") +
                       (info.param.local_rail ? "_local" : "");
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '-' || c == ';'; }, '_');
    return name;
}

/// The ways to run a suite: `usual`, or what RAILYARD_TEST_FABRICS lists, as in
/// "efa-direct:32,efa:4:thread,tcp:1:local".
inline std::vector<Fabric> fabrics(std::vector<Fabric> usual) {
    const char* text = std::getenv("RAILYARD_TEST_FABRICS");
    if (!text) return usual;
    std::vector<Fabric> listed;
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
        std::istringstream parts(word);
        Fabric fabric;
        std::string rails, more;
        std::getline(parts, fabric.provider, ':');
        std::getline(parts, rails, ':');
        fabric.rails = std::stoi(rails);
        while (std::getline(parts, more, ':')) {
            fabric.progress_thread = fabric.progress_thread || more == "thread";
            fabric.local_rail = fabric.local_rail || more == "local";
        }
        listed.push_back(fabric);
    }
    return listed;
}

class EnginePair {
  public:
    explicit EnginePair(const Fabric& fabric) : EnginePair(fabric, fabric) {}
    EnginePair(const Fabric& left, const Fabric& right, const ParamMap& extra = {})
        : a(make_engine("alpha", left, extra)), b(make_engine("beta", right, extra)) {
        a->load_connection_info("beta", b->connection_info());
        b->load_connection_info("alpha", a->connection_info());
    }

    /// One engine that is both of them: what it moves is its own.
    static EnginePair alone(const Fabric& fabric) { return EnginePair(make_engine("alpha", fabric)); }

    /// A's view of memory that B registered, of which this is a part or all.
    std::shared_ptr<RemoteRegion> publish(const std::shared_ptr<Registration>& region, std::uint64_t address,
                                          std::uint64_t length) {
        if (a == b) return a->local_as_remote(region);
        return a->load_remote_memory("beta", b->memory_metadata(*region), address, length);
    }
    std::shared_ptr<RemoteRegion> publish(const Buffer& buffer) {
        return publish(buffer.region, buffer.address(), buffer.bytes.size());
    }
    /// B, as A knows it.
    [[nodiscard]] const char* target() const { return a == b ? "alpha" : "beta"; }

    /// Drives both engines until `over` says so; false past the limit.
    bool until(const std::function<bool()>& over,
               std::chrono::milliseconds limit = std::chrono::seconds(20)) {
        const auto end = std::chrono::steady_clock::now() + limit;
        Patience loop;
        while (!over()) {
            if (std::chrono::steady_clock::now() > end) return false;
            if (a) a->progress();
            if (b) b->progress();
            loop.turn();
        }
        return true;
    }

    Status wait(Transfer& transfer, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
        Status status = Status::in_progress;
        const bool over = until([&] { return (status = a->poll(transfer)) != Status::in_progress; }, limit);
        EXPECT_TRUE(over) << "transfer still in progress";
        return status;
    }

    Status run(Transfer& transfer) {
        const Status status = a->post(transfer);
        return status == Status::in_progress ? wait(transfer) : status;
    }

    /// What B has received, once there are at least `count`.
    std::vector<Notification> notifications(std::size_t count) {
        std::vector<Notification> got;
        EXPECT_TRUE(until([&] {
            b->take_notifications(got);
            return got.size() >= count;
        })) << "only "
            << got.size() << " of " << count << " notifications arrived";
        return got;
    }

    std::shared_ptr<Engine> a, b;

  private:
    explicit EnginePair(std::shared_ptr<Engine> both) : a(both), b(both) {}
};

/// Polls what a post has answered so, with nobody driving the other side; in_progress past the limit.
inline Status wait_alone(Engine& engine, Transfer& transfer, Status posted,
                         std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (Patience loop; posted == Status::in_progress && std::chrono::steady_clock::now() < end; loop.turn())
        posted = engine.poll(transfer);
    return posted;
}
/// Posts first.
inline Status run_alone(Engine& engine, Transfer& transfer,
                        std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    return wait_alone(engine, transfer, engine.post(transfer), limit);
}

inline PeerReport report_of(const Engine& engine, const std::string& agent) {
    for (const PeerReport& peer : engine.peers()) {
        if (peer.agent == agent) return peer;
    }
    ADD_FAILURE() << agent << " is not known";
    return {};
}

/// `call` must throw Error of this status, with `word` in its text.
template <class Call>
inline void expect_error(Status status, const std::string& word, Call call) {
    try {
        call();
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), status) << error.what();
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
}

}  // namespace railyard::test
