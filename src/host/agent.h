// The embedded host: one agent that drives one backend plugin through its two exports, as the stock host
// would.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace railyard::host {

enum class Op : std::uint8_t { read, write };

struct AgentConfig {
    std::string name;
    std::string plugin = "RAILYARD";            ///< backend NAME: libplugin_NAME.so
    std::string plugin_dir;                     ///< empty: RAILYARD_PLUGIN_DIR, then NIXL_PLUGIN_DIR
    std::map<std::string, std::string> params;  ///< backend parameters
    bool progress_thread = true;
    std::chrono::microseconds progress_delay{0};
};

/// `length` bytes at `address`; device 0 is host memory, device n > 0 is GPU n - 1.
struct Range {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device = 0;
};

/// A transfer handle; move-only, released on destruction. One that outlives its Agent is inert.
class Request;
struct RequestState;

/// Errors of the control path are thrown as railyard::Error with the plugin's status; post and poll return
/// it. Thread use: as the plugin allows (ours: any thread); Request objects are for one thread at a time.
class Agent {
  public:
    explicit Agent(AgentConfig config);
    ~Agent();
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;

    [[nodiscard]] const std::string& name() const noexcept;

    void register_memory(Range range);
    void deregister_memory(Range range);

    /// Connection info and all registered memory as one blob for a peer (magic, version, lengths, checksum).
    [[nodiscard]] std::string metadata() const;
    /// Loads a peer's blob; returns the peer's agent name. Nothing stays loaded when it throws.
    std::string load_peer(std::string_view metadata);
    void connect(const std::string& agent);
    void forget_peer(const std::string& agent);

    /// Range i of `local` moves to or from range i of `remote`; `agent` may be our own name. Each side lies
    /// in one kind of memory, not both in the same. `custom_param` is handed to the plugin here and not again
    /// at a post, as the stock host does it.
    Request prepare(Op op, std::span<const Range> local, std::span<const Range> remote,
                    const std::string& agent, std::optional<std::string> notification = std::nullopt,
                    std::string custom_param = {});

    void notify(const std::string& agent, const std::string& message);
    /// Sender and message pairs that have arrived since the last call.
    std::vector<std::pair<std::string, std::string>> notifications();

  private:
    friend class Request;
    class Impl;
    std::unique_ptr<Impl> impl_;
};

class Request {
  public:
    Request(Request&&) noexcept;
    Request& operator=(Request&&) noexcept;
    ~Request();
    /// in_progress, ok or an error. A posted request may be posted again once it has ended.
    Status post() noexcept;
    /// Status of the last post; drives the plugin's progress.
    Status poll() noexcept;
    /// post(), then poll() until it ends; Status::not_allowed past `limit` (the request is still in flight
    /// then).
    Status run(std::chrono::milliseconds limit) noexcept;

  private:
    friend class Agent;
    explicit Request(std::unique_ptr<RequestState> state) noexcept;
    std::unique_ptr<RequestState> state_;
};

}  // namespace railyard::host
