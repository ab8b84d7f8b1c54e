// Answers over the connection that their question came on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/endpoint.h"
#include "rail/rail_counters.h"
#include "rail/receive_slots.h"
#include "rail/work.h"

namespace railyard {

/// For rails over sockets, where a connection that carries bytes in one direction only costs acknowledgements
/// of their own (ADR 32). Questions come from a peer's sender to our receiving endpoint, so answers leave
/// from that one for the sender, and those to us come in at ours. What cannot be sent so at once goes the
/// ordinary way. Role holder only, like the endpoints it uses.
class AnswerChannel {
  public:
    static constexpr std::size_t send_slots = 32;
    static constexpr std::size_t receive_slots = 16;
    /// Fragments of a message, at most. One begins only where there is room for so many: they are put in
    /// their places in order.
    static constexpr std::size_t longest_message = 10;
    /// Text that fits into these beside the longest names and a signature (bytes); longer messages do not
    /// come here: they would fill the way back.
    static constexpr std::size_t longest_text = std::size_t{64} << 10;

    /// `endpoint`, `sink` and `counters` outlive it.
    AnswerChannel(std::string rail, fabric::Endpoint& endpoint, ControlSink& sink, ControlCounters& counters);
    AnswerChannel(const AnswerChannel&) = delete;
    AnswerChannel& operator=(const AnswerChannel&) = delete;

    /// Sends all of it to OutMessage::asker; false: nothing of it has gone. What fails later ends with
    /// remote_disconnect.
    bool send(OutMessage& message) noexcept;
    /// Takes what comes in at our sender, which stays until begin_renewal.
    void receive_at(fabric::Endpoint& sender) noexcept;
    /// Our sender is about to be closed: nothing is taken until receive_at. Returns what the provider may
    /// still tell of. Throws std::bad_alloc, and has done nothing then.
    std::shared_ptr<void> begin_renewal();
    /// Offers the receive buffers that the provider has not taken once more.
    void post_missing_receives() noexcept { receives_->post_missing(); }
    /// Ends every message that is left as canceled.
    void cancel_all() noexcept;

    /// Fragments with the provider.
    [[nodiscard]] std::uint32_t outstanding() const noexcept {
        return static_cast<std::uint32_t>(send_slots - free_count_);
    }
    [[nodiscard]] std::size_t receives_missing() const noexcept { return receives_->missing(); }
    [[nodiscard]] bool holds_messages() const noexcept { return receives_->holds_messages(); }

  private:
    struct Slot : fabric::OpContext {
        AnswerChannel* channel = nullptr;
        OutMessage* message = nullptr;
        std::byte* buffer = nullptr;
        std::size_t length = 0;
        Slot* next = nullptr;
    };

    [[nodiscard]] std::shared_ptr<ReceiveSlots> new_receives();
    static void on_sent(fabric::OpContext& op, const fabric::Completion& completion) noexcept;

    const std::string rail_;
    fabric::Endpoint& endpoint_;
    ControlSink& sink_;
    ControlCounters& counters_;
    std::unique_ptr<std::byte[]> buffers_;
    std::vector<Slot> sends_;
    Slot* free_ = nullptr;
    std::size_t free_count_ = send_slots;
    std::shared_ptr<ReceiveSlots> receives_;       ///< of the current sender
    std::shared_ptr<ReceiveSlots> next_receives_;  ///< of the next one, during a renewal
};

}  // namespace railyard
