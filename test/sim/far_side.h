// An agent in another process with a registered buffer, and handles of an engine here on it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/crc32.h"
#include "one_engine.h"
#include "other_machine.h"

namespace railyard::test {

/// Another process with an engine of that name; it has a progress thread, whatever `fabric` says.
inline std::unique_ptr<OtherMachine> start_agent(const Fabric& fabric, const std::string& agent) {
    Words params{"agent=" + agent};
    for (const auto& [key, value] : fabric_params(fabric))
        params.push_back(key + "=" + value);
    return std::make_unique<OtherMachine>(std::getenv("HWLOC_XMLFILE"), agent, params, true);
}

/// One thread. Its process ends with it.
struct FarSide {
    FarSide(Engine& engine, const Fabric& fabric, const std::string& agent, std::size_t size)
        : FarSide(engine, start_agent(fabric, agent), agent, size) {}
    FarSide(Engine& engine, std::unique_ptr<OtherMachine> machine, std::string agent, std::size_t size)
        : engine_(engine), name(std::move(agent)), process(std::move(machine)) {
        info = process->connection_info();
        far = process->make_buffer(size, 7);
        near = std::make_unique<Buffer>(engine, size);
        fill_pattern(near->bytes, 3);
    }
    ~FarSide() {
        for (Transfer* transfer : transfers)
            engine_.release(transfer);
        try {
            if (near->region) engine_.deregister_memory(near->region);
        } catch (const Error& error) {
            std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
            std::abort();  // the network may still write to it
        }
    }
    FarSide(const FarSide&) = delete;
    FarSide& operator=(const FarSide&) = delete;

    /// Loads what it published. Throws Error.
    void meet() {
        engine_.load_connection_info(name, info);
        remote = engine_.load_remote_memory(name, far.metadata, far.address, far.size);
    }
    Transfer* prepare(Operation operation, std::size_t length, std::size_t at = 0,
                      std::optional<std::string_view> message = std::nullopt) {
        const LocalDescriptor here = near->local(at, length);
        const RemoteDescriptor there{far.address + at, length, &remote};
        transfers.push_back(engine_.prepare(operation, {&here, 1}, {&there, 1}, name, message));
        return transfers.back();
    }
    /// Both sides hold the same bytes.
    [[nodiscard]] bool same_bytes() const {
        return crc32({reinterpret_cast<const char*>(near->bytes.data()), near->bytes.size()}) ==
               process->checksum(0);
    }

    Engine& engine_;
    const std::string name;
    std::unique_ptr<OtherMachine> process;
    std::string info;  ///< its connection info
    PublishedBuffer far;
    std::unique_ptr<Buffer> near;
    std::shared_ptr<RemoteRegion> remote;
    std::vector<Transfer*> transfers;
};

}  // namespace railyard::test
