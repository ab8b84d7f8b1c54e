// What an Agent and its Requests share: the plugin's engine and the handles that are still alive on it.
#pragma once

#include <backend/backend_engine.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "common/status.h"
#include "host/agent.h"
#include "host/plugin_loader.h"

namespace railyard::host {

[[nodiscard]] Status from_nixl(nixl_status_t status) noexcept;

/// Throws the status as an Error unless it is success. `what` completes "the plugin refuses to ...".
void require_success(nixl_status_t status, std::string_view what);

struct RequestState;

/// Request handles of one engine. The Agent ends them all before the engine, so a Request that outlives it is
/// inert.
class LiveRequests {
  public:
    void add(RequestState* state);
    void remove(RequestState* state) noexcept;
    /// Releases every handle; later calls on the requests answer not_posted.
    void release_all() noexcept;

  private:
    std::mutex mutex_;
    std::unordered_set<RequestState*> states_;
};

/// The lists and options live as long as the handle, because the plugin interface passes them again at each
/// post.
struct RequestState {
    RequestState(nixlBackendEngine& plugin_engine, std::shared_ptr<LiveRequests> live_requests)
        : engine(&plugin_engine), live(std::move(live_requests)) {}
    RequestState(const RequestState&) = delete;
    RequestState& operator=(const RequestState&) = delete;
    ~RequestState();

    Status post() noexcept;
    Status poll() noexcept;
    void release() noexcept;

    nixlBackendEngine* engine;  ///< nullptr once the agent is gone
    std::shared_ptr<LiveRequests> live;
    nixl_xfer_op_t operation = NIXL_WRITE;
    nixl_meta_dlist_t local{DRAM_SEG};
    nixl_meta_dlist_t remote{DRAM_SEG};
    std::string agent;
    nixlBackendOptionalArgs options;
    nixlBackendReqH* handle = nullptr;
    Status last = Status::not_posted;
};

}  // namespace railyard::host
