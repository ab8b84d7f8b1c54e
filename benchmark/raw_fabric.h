// A plain libfabric loop over the same devices as the plugin: what --raw compares with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "host/agent.h"
#include "options.h"
#include "workload.h"

namespace railyard::bench {

/// As fast as a straightforward program gets: memory registered beforehand, operations built beforehand,
/// whole blocks spread over the rails in runs, FI_MORE inside a run, completions read many at a time, and a
/// full queue answered by reading completions. Everything but construction belongs to one thread. Throws
/// Error where libfabric fails.
class RawFabric {
  public:
    /// Opens rails_per_device endpoints on every device chosen and registers `memory` with each. `wait_fd`:
    /// completion queues as a progress thread would want them (FI_WAIT_FD where the provider has it).
    RawFabric(const FabricChoice& choice, bool wait_fd, std::span<std::byte> memory);
    ~RawFabric();
    RawFabric(const RawFabric&) = delete;
    RawFabric& operator=(const RawFabric&) = delete;

    /// What the other side needs: address, key and base of each rail.
    [[nodiscard]] nlohmann::json address() const;
    /// Takes the other side's address(); rail i talks to its rail i modulo their number.
    void connect(const nlohmann::json& peer);

    [[nodiscard]] std::string provider() const;
    [[nodiscard]] std::size_t rail_count() const noexcept;

    /// Builds the operations of a point. Nothing may be outstanding.
    void prepare(const Point& point);
    /// Starts transfer `slot`; it must not be outstanding. Returns false: raw transfers never end at once.
    bool post(unsigned slot);
    /// Transfers that have ended since the last call; valid until the next call.
    std::span<const unsigned> harvest();
    /// One look at every completion queue, which is what moves a passive side.
    void serve();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

/// "1.17" and the like: the libfabric in use.
[[nodiscard]] std::string libfabric_version();

}  // namespace railyard::bench
