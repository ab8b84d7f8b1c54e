// One side of a transfer inside this process: an engine over all rails asked for, and registered memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace railyard::bench {

/// Throws for what is neither ok nor under way.
inline void require(Status status) {
    if (status != Status::ok && status != Status::in_progress)
        throw Error(status, "a transfer failed: " + std::string(to_string(status)));
}

struct Side {
    Side(const std::string& name, const std::string& provider, unsigned rails, std::uint64_t bytes,
         bool progress_thread = true)
        : Side(name, params_of(provider, rails), bytes, progress_thread) {}
    Side(const std::string& name, const ParamMap& params, std::uint64_t bytes, bool progress_thread)
        : memory(bytes, 'x') {
        EngineConfig config;
        config.progress_thread = progress_thread;
        config.agent_name = name;
        config.params = Params::parse(params);
        engine = std::make_unique<Engine>(std::move(config));
        region = engine->register_memory(base(), memory.size(), 0);
    }
    /// All rails of the machine for host memory, so that their number is the one asked for. Nobody is given
    /// up here: under callgrind the two sides take turns, and the other may not get any for seconds.
    static ParamMap params_of(const std::string& provider, unsigned rails) {
        return {{"provider", provider},
                {"rails", std::to_string(rails)},
                {"max_bw_per_dram_seg", "1000000"},
                {"peer_timeout_ms", "600000"}};
    }
    [[nodiscard]] std::uint64_t base() const { return reinterpret_cast<std::uint64_t>(memory.data()); }

    /// This side's view of the other's memory, and its name known here.
    std::shared_ptr<RemoteRegion> meet(const std::string& name, const Side& other) {
        engine->load_connection_info(name, other.engine->connection_info());
        return engine->load_remote_memory(name, other.engine->memory_metadata(*other.region), other.base(),
                                          other.memory.size());
    }
    /// A WRITE of `count` descriptors of `size` bytes, from and to the same offsets from `start` on.
    Transfer* prepare_write(const std::string& name, const Side& other, std::shared_ptr<RemoteRegion>& remote,
                            std::uint64_t start, std::uint64_t size, std::uint64_t count) {
        return prepare_write(name, remote, {base() + start, other.base() + start, size}, count);
    }
    struct Block {
        std::uint64_t local = 0, remote = 0, size = 0;
    };
    /// `first` and those that follow it at either side.
    Transfer* prepare_write(const std::string& name, std::shared_ptr<RemoteRegion>& remote, Block first,
                            std::uint64_t count) {
        std::vector<LocalDescriptor> local;
        std::vector<RemoteDescriptor> remotes;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t offset = i * first.size;
            local.push_back({first.local + offset, first.size, &region});
            remotes.push_back({first.remote + offset, first.size, &remote});
        }
        return engine->prepare(Operation::write, local, remotes, name, std::nullopt);
    }

    std::vector<char> memory;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<Registration> region;
};

}  // namespace railyard::bench
