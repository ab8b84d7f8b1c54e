#include <thread>
#include <utility>

#include "host/agent_core.h"

namespace railyard::host {
namespace {
constexpr int polls_between_yields = 256;
}

Status from_nixl(nixl_status_t status) noexcept {
    switch (status) {
        case NIXL_SUCCESS:
            return Status::ok;
        case NIXL_IN_PROG:
            return Status::in_progress;
        case NIXL_ERR_NOT_POSTED:
            return Status::not_posted;
        case NIXL_ERR_INVALID_PARAM:
            return Status::invalid_param;
        case NIXL_ERR_BACKEND:
            return Status::backend;
        case NIXL_ERR_NOT_FOUND:
            return Status::not_found;
        case NIXL_ERR_MISMATCH:
            return Status::mismatch;
        case NIXL_ERR_NOT_ALLOWED:
            return Status::not_allowed;
        case NIXL_ERR_REPOST_ACTIVE:
            return Status::repost_active;
        case NIXL_ERR_NOT_SUPPORTED:
            return Status::not_supported;
        case NIXL_ERR_NO_TELEMETRY:
            return Status::not_supported;
        case NIXL_ERR_REMOTE_DISCONNECT:
            return Status::remote_disconnect;
        case NIXL_ERR_CANCELED:
            return Status::canceled;
        case NIXL_ERR_UNKNOWN:
            return Status::backend;
    }
    return Status::backend;
}

void require_success(nixl_status_t status, std::string_view what) {
    if (status == NIXL_SUCCESS) return;
    const Status translated = status == NIXL_IN_PROG ? Status::backend : from_nixl(status);
    throw Error(translated, "the plugin refuses to " + std::string(what) + ": " + to_string(translated));
}

void LiveRequests::add(RequestState* state) {
    const std::lock_guard lock(mutex_);
    states_.insert(state);
}

void LiveRequests::remove(RequestState* state) noexcept {
    const std::lock_guard lock(mutex_);
    states_.erase(state);
}

void LiveRequests::release_all() noexcept {
    const std::lock_guard lock(mutex_);
    for (RequestState* const state : states_)
        state->release();
    states_.clear();
}

RequestState::~RequestState() {
    live->remove(this);
    release();
}

void RequestState::release() noexcept {
    if (engine != nullptr && handle != nullptr) engine->releaseReqH(handle);
    handle = nullptr;
    engine = nullptr;
}

Status RequestState::post() noexcept {
    if (engine == nullptr) return Status::not_posted;
    if (last == Status::in_progress && poll() == Status::in_progress) return Status::repost_active;
    return last = from_nixl(engine->postXfer(operation, local, remote, agent, handle, &options));
}

Status RequestState::poll() noexcept {
    if (last != Status::in_progress || engine == nullptr) return last;
    return last = from_nixl(engine->checkXfer(handle));
}

Request::Request(std::unique_ptr<RequestState> state) noexcept : state_(std::move(state)) {}
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

Status Request::post() noexcept {
    return state_ == nullptr ? Status::not_posted : state_->post();
}

Status Request::poll() noexcept {
    return state_ == nullptr ? Status::not_posted : state_->poll();
}

Status Request::run(std::chrono::milliseconds limit) noexcept {
    Status status = post();
    if (status != Status::in_progress) return status;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (int polls = 1; (status = poll()) == Status::in_progress; ++polls) {
        if (polls % polls_between_yields != 0) continue;
        if (std::chrono::steady_clock::now() >= deadline) return Status::not_allowed;
        std::this_thread::yield();
    }
    return status;
}

}  // namespace railyard::host
