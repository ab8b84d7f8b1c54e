// The plugin's edge: engine statuses become the host's, exceptions end here as one log line and a status.
#pragma once

#include <backend/backend_engine.h>

#include <exception>
#include <new>

#include "common/log.h"
#include "common/status.h"

namespace railyard::plugin {

[[nodiscard]] constexpr nixl_status_t to_nixl(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return NIXL_SUCCESS;
        case Status::in_progress:
            return NIXL_IN_PROG;
        case Status::not_posted:
            return NIXL_ERR_NOT_POSTED;
        case Status::invalid_param:
            return NIXL_ERR_INVALID_PARAM;
        case Status::backend:
            return NIXL_ERR_BACKEND;
        case Status::not_found:
            return NIXL_ERR_NOT_FOUND;
        case Status::mismatch:
            return NIXL_ERR_MISMATCH;
        case Status::not_allowed:
            return NIXL_ERR_NOT_ALLOWED;
        case Status::repost_active:
            return NIXL_ERR_REPOST_ACTIVE;
        case Status::not_supported:
            return NIXL_ERR_NOT_SUPPORTED;
        case Status::remote_disconnect:
            return NIXL_ERR_REMOTE_DISCONNECT;
        case Status::canceled:
            return NIXL_ERR_CANCELED;
    }
    return NIXL_ERR_UNKNOWN;
}

/// Runs `body`, which does the host's call `name` for the engine of agent `id` and returns a host status.
/// Whatever it throws is logged once, with the call's name, and becomes a status.
template <class Body>
nixl_status_t guarded(const char* id, const char* name, Body&& body) noexcept {
    try {
        return body();
    } catch (const Error& error) {
        RAILYARD_LOG(error, id, "%s: %s", name, error.what());
        return to_nixl(error.status());
    } catch (const std::bad_alloc&) {
        RAILYARD_LOG(error, id, "%s: out of memory", name);
    } catch (const std::exception& error) {
        RAILYARD_LOG(error, id, "%s: unexpected error: %s", name, error.what());
    } catch (...) {
        RAILYARD_LOG(error, id, "%s: unexpected error of unknown type", name);
    }
    return NIXL_ERR_BACKEND;
}

}  // namespace railyard::plugin
