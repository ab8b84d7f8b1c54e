// The C edge: exceptions end here, as a status and a text of this thread.
#pragma once

#include <pthread.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "flow/side.h"
#include "railyard/flow.h"

namespace railyard::flow {

/// Of this thread; cut off where it is too long. Allocates nothing.
void set_last_error(const char* call, const char* text) noexcept;
[[nodiscard]] const char* last_error() noexcept;

/// A refusal of the edge itself.
struct Refusal {
    ryf_status status;
    std::string text;
};
[[noreturn]] inline void refuse(ryf_status status, std::string text) {
    throw Refusal{status, std::move(text)};
}

[[nodiscard]] constexpr ryf_status to_ryf(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return RYF_OK;
        case Status::invalid_param:
        case Status::mismatch:
            return RYF_ERR_INVALID_ARG;
        case Status::not_found:
            return RYF_ERR_NOT_FOUND;
        case Status::not_allowed:
            return RYF_ERR_INVALID_STATE;
        case Status::repost_active:
            return RYF_ERR_EXISTS;
        case Status::not_supported:
            return RYF_ERR_UNSUPPORTED;
        case Status::remote_disconnect:
            return RYF_ERR_DISCONNECTED;
        default:
            return RYF_ERR_INTERNAL;
    }
}

/// Runs `body`, which does the call `name` and returns a status.
template <class Body>
ryf_status guarded(const char* name, Body&& body) noexcept {
    try {
        return body();
    } catch (const Refusal& refusal) {
        set_last_error(name, refusal.text.c_str());
        return refusal.status;
    } catch (const NoFabric& error) {
        set_last_error(name, error.what());
        return RYF_ERR_NO_FABRIC;
    } catch (const Error& error) {
        set_last_error(name, error.what());
        return to_ryf(error.status());
    } catch (const std::bad_alloc&) {
        set_last_error(name, "out of memory");
    } catch (const std::exception& error) {
        set_last_error(name, error.what());
    } catch (...) {
        set_last_error(name, "unexpected error of unknown type");
    }
    return RYF_ERR_INTERNAL;
}

/// While there is one, the thread is not cancelled: what it would leave in the middle of a call, by
/// unwinding, is libfabric's and the engine's.
class NoCancellation {
  public:
    NoCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

/// The same of a call that may wait. Not of those that programs make without a pause, as it costs two locked
/// instructions.
template <class Body>
ryf_status guarded_wait(const char* name, Body&& body) noexcept {
    const NoCancellation held_back;
    return guarded(name, std::forward<Body>(body));
}

/// Throws Refusal for a NULL argument.
template <class T>
T& require(T* argument, const char* name) {
    if (!argument) refuse(RYF_ERR_INVALID_ARG, std::string(name) + " is NULL");
    return *argument;
}

}  // namespace railyard::flow
