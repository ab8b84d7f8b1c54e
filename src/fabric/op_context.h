// The context of one posted operation, and the one way in which it ends.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

#include "common/status.h"

namespace railyard::fabric {

/// How an operation ended.
struct Completion {
    Status status = Status::ok;
    std::size_t length = 0;  ///< bytes received, for receives
    int error = 0;           ///< positive libfabric errno, when status is not ok
    int provider_error = 0;
    /// The target had no receive buffer: it has seen nothing of the message, which may be sent again.
    bool receiver_not_ready = false;
    /// The target does not know our endpoint: it has done nothing.
    bool unknown_at_target = false;
    /// The target's NIC does not let us at that memory by that key: nothing has been done from then on.
    bool key_refused = false;
    /// The receive was used up by a peer's write with immediate data: its buffer is as it was
    /// (FI_RX_CQ_DATA).
    bool immediate = false;
};

/// Hears of peers' writes with immediate data, whose bytes are in place by then.
class ImmediateSink {
  public:
    /// Called by a role holder, which must not be kept waiting. Peers choose `data`: it may be anything.
    virtual void on_immediate(std::uint32_t data) noexcept = 0;

  protected:
    ~ImmediateSink() = default;
};

/// Handed to the provider with every operation; lives until complete_with. The owner sets `handler` once.
struct OpContext {
    fi_context2 provider_context{};  // must stay first: providers write here (FI_CONTEXT2)
    using Handler = void (*)(OpContext& op, const Completion& completion) noexcept;
    Handler handler = nullptr;
    /// 0: not with the provider; else 1, and as much more as found_again() has found it there.
    std::uint8_t posted = 0;

    /// Every posted operation comes here exactly once, success and error alike. False: it had ended already,
    /// and nothing has been done.
    bool complete_with(const Completion& completion) noexcept {
        if (!posted) [[unlikely]]
            return false;
        posted = 0;
        handler(*this, completion);
        return true;
    }
    /// True when it has been found with the provider `often` times.
    bool found_again(std::uint8_t often) noexcept {
        if (posted == 0) return false;
        if (posted < UINT8_MAX) ++posted;
        return posted > often;
    }
};

}  // namespace railyard::fabric
