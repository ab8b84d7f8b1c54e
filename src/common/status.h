// Status values of the engine and the exception of its control path.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace railyard {

/// Outcome of an engine call. The names follow the host interface; the numbers are ours alone.
enum class Status : std::uint8_t {
    ok,
    in_progress,
    not_posted,
    invalid_param,
    backend,
    not_found,
    mismatch,
    not_allowed,
    repost_active,
    not_supported,
    remote_disconnect,
    canceled,
};

/// Stable lower-case name, for logs and messages.
[[nodiscard]] constexpr const char* to_string(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return "ok";
        case Status::in_progress:
            return "in progress";
        case Status::not_posted:
            return "not posted";
        case Status::invalid_param:
            return "invalid parameter";
        case Status::backend:
            return "backend error";
        case Status::not_found:
            return "not found";
        case Status::mismatch:
            return "mismatch";
        case Status::not_allowed:
            return "not allowed";
        case Status::repost_active:
            return "repost of an active transfer";
        case Status::not_supported:
            return "not supported";
        case Status::remote_disconnect:
            return "remote disconnected";
        case Status::canceled:
            return "canceled";
    }
    return "unknown status";
}

/// Thrown on the control path only (creation, registration, metadata, preparation). The hot path returns a
/// Status. The message names the thing that is wrong and what to do about it. Translated once, at the edge.
class Error : public std::runtime_error {
  public:
    Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    [[nodiscard]] Status status() const noexcept { return status_; }

  private:
    Status status_;
};

/// What failed for want of something that comes back, as descriptors do: to be tried again, and not to be
/// taken for what cannot be done.
class PassingError : public Error {
  public:
    using Error::Error;
};

}  // namespace railyard
