// Receive side of one endpoint: posted buffers and notices, which senders fill without our help.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/layout.h"

namespace simefa {

class Arrivals {
  public:
    virtual void message_arrived(const ReceiveSlot& slot) noexcept = 0;
    virtual void notice_arrived(const NoticeSlot& slot) noexcept = 0;

  protected:
    ~Arrivals() = default;
};

/// Guarded by the domain's lock. A sender that was killed while it filled a slot costs nobody anything: its
/// buffer is posted again; one that is merely slow is passed by.
class ReceiveQueue {
  public:
    /// `record` must outlive this. `depth`: buffers that may be posted, up to receive_slots.
    ReceiveQueue(EndpointRecord& record, const DomainRecord& domain, std::size_t depth) noexcept;

    /// False: as many are posted as fit.
    bool post(const Segment* segments, std::size_t count, std::uint64_t context) noexcept;
    /// Hands over what arrived, up to `limit` pieces; returns their number.
    std::size_t progress(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept;
    /// Whether something arrived or is just arriving, so that it is too early to sleep.
    [[nodiscard]] bool busy() const noexcept;
    /// Senders see a closed endpoint from now on; returns when none is writing into our memory any more.
    void close() noexcept;
    [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

  private:
    std::size_t drain_messages(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept;
    std::size_t drain_notices(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept;
    bool take_message(std::uint32_t ticket, Arrivals& sink) noexcept;
    bool take_notice(std::uint32_t ticket, Arrivals& sink) noexcept;
    bool sender_died(std::uint16_t user, std::uint64_t now) noexcept;
    void post_notice(std::uint32_t ticket) noexcept;

    EndpointRecord& record_;
    const DomainRecord& domain_;
    const std::uint32_t depth_;
    std::uint32_t posted_ = 0, tail_ = 0;
    std::uint32_t notice_tail_ = 0;
    std::uint64_t next_check_ = 0;
};

}  // namespace simefa
