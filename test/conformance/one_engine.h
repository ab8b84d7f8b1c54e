// One engine and its memory, for tests and for programs without GoogleTest.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace railyard::test {

/// What an engine runs over, and who drives it.
struct Fabric {
    std::string provider;
    int rails = 1;
    bool progress_thread = false;
    bool local_rail = false;  ///< else everything goes over the fabric, which is what is to be tested
};

/// Keys of memory are the NICs'; else they are ours, and may be the same again.
inline bool draws_its_keys(const Fabric& fabric) {
    return fabric.provider.starts_with("efa");
}

/// Peers that are refused for an older one learn it, and ask for the present one.
inline bool asks_for_keys(const Fabric& fabric) {
    return fabric.provider == "efa-direct";
}

/// Memory that is registered again is described as before: by keys of ours, or as a thread answers peers that
/// ask for the present ones.
inline bool describes_as_before(const Fabric& fabric) {
    return !draws_its_keys(fabric) || (asks_for_keys(fabric) && fabric.progress_thread);
}

inline ParamMap fabric_params(const Fabric& fabric) {
    ParamMap params{{"provider", fabric.provider}, {"local_rail", fabric.local_rail ? "auto" : "off"}};
    if (fabric.provider.starts_with("efa")) {
        // One rail a NIC, and all of them for any memory.
        params["rails"] = std::to_string(fabric.rails);
        params["max_bw_per_dram_seg"] = "1000000";
        return params;
    }
    params["rails_per_device"] = std::to_string(fabric.rails);
    if (fabric.provider.starts_with("tcp")) params["devices"] = "lo";
    return params;
}

inline std::unique_ptr<Engine> make_engine(const std::string& name, const Fabric& fabric,
                                           ParamMap extra = {}) {
    extra.merge(fabric_params(fabric));
    EngineConfig config;
    config.agent_name = name;
    config.params = Params::parse(extra, [](const char*) -> const char* { return nullptr; });
    config.progress_thread = fabric.progress_thread;
    return std::make_unique<Engine>(std::move(config));
}

/// Memory of one side, registered as a whole.
struct Buffer {
    explicit Buffer(Engine& engine, std::size_t size, std::uint8_t fill = 0)
        : bytes(size, fill), region(engine.register_memory(address(), size, 0)) {}
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes.data()); }
    [[nodiscard]] LocalDescriptor local(std::uint64_t offset, std::uint64_t length) const {
        return {address() + offset, length, &region};
    }
    std::vector<std::uint8_t> bytes;
    std::shared_ptr<Registration> region;
};

inline void fill_pattern(std::span<std::uint8_t> bytes, std::uint32_t seed) {
    std::uint32_t state = seed * 2654435761u + 1;
    for (std::uint8_t& byte : bytes) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<std::uint8_t>(state >> 24);
    }
}

}  // namespace railyard::test
