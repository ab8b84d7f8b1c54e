// The completion queues of one rail: one for all, or one for each of its endpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/completion_queue.h"
#include "fabric/domain.h"

namespace railyard::fabric {

/// Where closing an endpoint spoils its queue for others (ProviderCaps::spoils_queue) the sender has one of
/// its own, which is opened and closed with it; elsewhere both endpoints share one. Role holder only.
class CompletionQueues {
  public:
    struct Depths {
        std::size_t received = 0;      ///< of messages, and peers' immediate data
        std::size_t sent = 0;          ///< of operations and messages
        std::size_t least = SIZE_MAX;  ///< CompletionQueue, of both together where they share one
    };
    /// Throws Error.
    CompletionQueues(const Domain& domain, const Depths& depths, bool blocking);

    /// Of the endpoint that receives.
    [[nodiscard]] CompletionQueue& received() noexcept { return received_; }
    /// Of the one that sends. There is one.
    [[nodiscard]] CompletionQueue& sent() noexcept { return own_sent_ ? *sent_ : received_; }
    /// Where it has one of its own: what there is of it, nullptr between two senders.
    [[nodiscard]] CompletionQueue* own_sent() noexcept { return sent_.get(); }
    [[nodiscard]] bool has_own_sent() const noexcept { return own_sent_; }
    /// For the next sender, where that has one of its own and it is not open. Throws Error.
    void open_sent();
    /// With all that lies there unread: the sender has been closed. False: it shares one, and nothing has
    /// happened.
    bool close_sent() noexcept;

    [[nodiscard]] std::size_t depth() const noexcept { return received_.depth() + (own_sent_ ? depth_ : 0); }

    /// CompletionQueue::drain of both; `sending`: something is under way from the sender. Else its own one
    /// is looked at now and then only.
    std::size_t drain(std::size_t limit, bool sending) noexcept {
        const std::size_t ended = received_.drain(limit);
        if (!sent_ || !(sending || ++passes_ % passes_between_looks == 0)) return ended;
        return ended + sent_->drain(limit);
    }
    /// Of what was sent, and where both share one of all.
    std::size_t drain_sent(std::size_t limit) noexcept {
        return sent_ ? sent_->drain(limit) : received_.drain(limit);
    }
    void drain_whole(std::size_t limit) noexcept;
    void drop(std::size_t limit) noexcept;
    void drop_ended(std::size_t limit) noexcept;

    [[nodiscard]] std::uint64_t flushed() const noexcept;
    /// One of them is, or was.
    [[nodiscard]] bool broken() const noexcept { return received_.broken() || (own_sent_ && sent_broken()); }
    [[nodiscard]] bool device_gone() const noexcept;

  private:
    static constexpr std::uint32_t passes_between_looks = 64;
    [[nodiscard]] bool sent_broken() const noexcept { return was_broken_ || (sent_ && sent_->broken()); }

    const Domain& domain_;
    const bool own_sent_, blocking_;
    const std::size_t depth_;  ///< of the sender's own
    std::uint32_t passes_ = 0;
    bool was_broken_ = false, was_gone_ = false;  ///< one that has been closed
    std::uint64_t flushed_before_ = 0;            ///< of those that have been closed
    CompletionQueue received_;
    std::unique_ptr<CompletionQueue> sent_;
};

}  // namespace railyard::fabric
