// Two agents of the embedded host in one process, connected through the plugin under test, over loopback.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/agent.h"

namespace railyard::test {

/// Far above what anything here takes, sanitizers included; a wait that reaches it is a failure.
inline constexpr auto patience = std::chrono::seconds(60);

struct Variant {
    const char* provider = "tcp";
    bool progress_thread = true;
    int rails = 1;
    int limit_ms = 0;  ///< connect_timeout_ms; 0: the default
};

inline void PrintTo(const Variant& variant, std::ostream* out) {
    *out << variant.provider << (variant.progress_thread ? "_thread" : "_inline") << "_rails"
         << variant.rails;
}

inline std::string variant_name(const testing::TestParamInfo<Variant>& info) {
    return testing::PrintToString(info.param);
}

/// Loopback only, whatever the provider.
inline host::AgentConfig agent_config(const std::string& name, const Variant& variant) {
    host::AgentConfig config;
    config.name = name;
    config.progress_thread = variant.progress_thread;
    config.params = {{"provider", variant.provider}, {"rails_per_device", std::to_string(variant.rails)}};
    if (std::string_view(variant.provider) == "tcp") config.params["devices"] = "lo";
    if (variant.limit_ms > 0) config.params["connect_timeout_ms"] = std::to_string(variant.limit_ms);
    return config;
}

/// The error that `action` throws; a failed test and a default when it throws none.
template <class Action>
Error error_of(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(Status::ok, "");
}

template <class Action>
Status status_of(Action&& action) {
    return error_of(std::forward<Action>(action)).status();
}

/// Compares without printing megabytes.
inline testing::AssertionResult same_bytes(std::string_view left, std::string_view right) {
    const auto [first, second] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    if (first == left.end() && second == right.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << left.size() << " and " << right.size() << " bytes differ from byte "
                                       << first - left.begin() << " on";
}

/// An agent with one registered buffer. Not thread safe.
class Side {
  public:
    Side(const std::string& name, const Variant& variant, std::size_t size)
        : buffer(size), agent(std::make_unique<host::Agent>(agent_config(name, variant))) {
        agent->register_memory(all());
    }

    [[nodiscard]] host::Range all() const { return range(0, buffer.size()); }
    [[nodiscard]] host::Range range(std::size_t offset, std::size_t length) const {
        return {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, 0};
    }
    /// Bytes that differ from place to place and from seed to seed.
    void fill(unsigned seed) {
        std::uint32_t state = seed * 2654435761u + 1;
        for (unsigned char& byte : buffer) {
            state = state * 1664525u + 1013904223u;
            byte = static_cast<unsigned char>(state >> 24);
        }
    }
    void clear() { std::fill(buffer.begin(), buffer.end(), static_cast<unsigned char>(0)); }
    [[nodiscard]] std::string_view text(std::size_t offset, std::size_t length) const {
        return {reinterpret_cast<const char*>(buffer.data()) + offset, length};
    }
    /// One look for notifications, which is progress too.
    void look() {
        for (auto& entry : agent->notifications())
            arrived.push_back(std::move(entry));
    }

    std::vector<unsigned char> buffer;  // outlives the agent: what is under way is written to it until then
    std::unique_ptr<host::Agent> agent;
    std::vector<std::pair<std::string, std::string>> arrived;
};

/// Both sides know each other.
struct Pair {
    explicit Pair(const Variant& variant, std::size_t size = std::size_t{4} << 20,
                  const std::string& suffix = "")
        : one("one" + suffix, variant, size), two("two" + suffix, variant, size) {
        one.agent->load_peer(two.agent->metadata());
        two.agent->load_peer(one.agent->metadata());
    }

    host::Request prepare(host::Op op, host::Range local, host::Range remote,
                          std::optional<std::string> message = std::nullopt) {
        return one.agent->prepare(op, {&local, 1}, {&remote, 1}, two.agent->name(), std::move(message));
    }

    /// Posts, then drives both sides until the transfer ends.
    Status finish(host::Request& request) {
        Status status = request.post();
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (status == Status::in_progress && std::chrono::steady_clock::now() < deadline) {
            two.look();
            status = request.poll();
        }
        return status;
    }
    Status run(host::Op op, host::Range local, host::Range remote,
               std::optional<std::string> message = std::nullopt) {
        host::Request request = prepare(op, local, remote, std::move(message));
        return finish(request);
    }

    /// Drives both sides until `side` has `count` notifications; returns whether it has exactly that many.
    bool wait_for(Side& side, std::size_t count) {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (side.arrived.size() < count && std::chrono::steady_clock::now() < deadline) {
            one.look();
            two.look();
        }
        return side.arrived.size() == count;
    }

    Side one;
    Side two;
};

}  // namespace railyard::test
