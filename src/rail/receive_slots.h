// Receive buffers for control messages at one endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/endpoint.h"
#include "rail/rail_counters.h"

namespace railyard {

class ControlSink;

/// Hands fragments to a sink and offers the buffers again. Those that the provider does not take are offered
/// once more after a while, and those whose fragment the sink has no memory for keep it so long. Role holder
/// only, like the endpoint it uses.
class ReceiveSlots {
  public:
    /// `sink` and `counters` outlive it, and so does `buffers`: `count` of OutMessage::longest_fragment.
    ReceiveSlots(std::string rail, std::byte* buffers, std::size_t count, ControlSink& sink,
                 ControlCounters& counters);
    ReceiveSlots(const ReceiveSlots&) = delete;
    ReceiveSlots& operator=(const ReceiveSlots&) = delete;

    /// Offers all of them there. `descriptor`: of the buffers' registration.
    void open(fabric::Endpoint& endpoint, void* descriptor) noexcept;
    /// The endpoint is about to be closed: what has come is handed on, and nothing is offered any more.
    void close() noexcept { endpoint_ = nullptr; }
    /// Others have the buffers now: whatever the provider still tells of is not handed on.
    void abandon() noexcept;
    void post_missing() noexcept;
    /// Buffers that the provider has not taken, or the sink has not emptied.
    [[nodiscard]] std::size_t missing() const noexcept { return missing_count_; }
    /// Some of these are to be emptied: nobody else tells when.
    [[nodiscard]] bool holds_messages() const noexcept { return holds_messages_; }

  private:
    struct Slot : fabric::OpContext {
        ReceiveSlots* owner = nullptr;
        std::byte* buffer = nullptr;
        std::size_t length = 0;
        bool full = false;  ///< what is in it has not been taken
        Slot* next = nullptr;
    };

    void post(Slot& slot) noexcept;
    void miss(Slot& slot) noexcept;
    bool hand_on(Slot& slot) noexcept;
    void refuse(std::size_t length) noexcept;
    static void on_received(fabric::OpContext& op, const fabric::Completion& completion) noexcept;

    const std::string rail_;
    ControlSink& sink_;
    ControlCounters& counters_;
    fabric::Endpoint* endpoint_ = nullptr;
    void* descriptor_ = nullptr;
    std::vector<Slot> slots_;
    Slot* missing_ = nullptr;
    std::size_t missing_count_ = 0;
    bool holds_messages_ = false;
    std::uint64_t refused_ = 0;   // by the provider, ever
    std::uint64_t too_much_ = 0;  // for the sink, ever
    std::uint64_t too_long_ = 0;  // for their buffers, ever
    std::uint64_t due_ns_ = 0;
};

}  // namespace railyard
