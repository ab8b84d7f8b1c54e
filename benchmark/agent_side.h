// One embedded agent with the benchmark's memory, as a driver of the timed loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.h"
#include "host/agent.h"
#include "opened.h"
#include "options.h"
#include "request_ring.h"
#include "workload.h"

namespace railyard::bench {

/// "railyard-bench:POINT:SLOT", the notification that transfer SLOT carries.
[[nodiscard]] std::string notification_text(unsigned point, unsigned slot);

/// The embedded host's configuration, as the options have it.
[[nodiscard]] host::AgentConfig agent_config(const Options& options, const std::string& name);

/// One thread.
class AgentSide {
  public:
    /// With streams, opens the GPU that they are on, too. Throws Failure.
    AgentSide(const Options& options, const std::string& name, const host::Range& memory);

    [[nodiscard]] host::Agent& agent() noexcept { return agent_; }
    [[nodiscard]] std::string metadata() const { return agent_.metadata(); }
    [[nodiscard]] Opened opened() const { return opened_by(metadata()); }
    /// Takes the other side's metadata and where its memory lies.
    void join(std::string_view metadata, const host::Range& remote);
    void connect() { agent_.connect(peer_); }
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

    /// Prepares one request for each slot of the window, and a stream for each where Options::stream asks for
    /// it.
    void prepare(const Point& point);
    /// Gives the requests back.
    void release() noexcept {
        ring_.release();
        streams_.clear();
    }

    /// Starts transfer `slot`. Throws Failure when it fails.
    void post(unsigned slot) { ring_.post(slot); }
    /// As RequestRing::harvest.
    std::span<const unsigned> harvest() { return ring_.harvest(); }

  private:
    host::Range memory_;
    const bool moves_once_;
    std::optional<Gpu> gpu_;
    host::Agent agent_;
    std::string peer_;
    host::Range remote_;
    std::vector<GpuStream> streams_;
    RequestRing ring_;
};

}  // namespace railyard::bench
