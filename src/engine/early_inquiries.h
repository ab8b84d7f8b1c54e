// What a writer asks the target of early notifications, before it carries out an operation once more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/open_inquiries.h"
#include "engine/peer.h"
#include "rail/work.h"

namespace railyard {

/// What has become of one mark. Any thread.
class EarlyInquiry {
  public:
    EarlyInquiry(std::shared_ptr<Peer> asked, std::uint32_t about, std::uint64_t with)
        : peer(std::move(asked)), mark(about), next(peer->early().replace()), message(with) {}
    /// Until the answer, lost once the peer is gone.
    [[nodiscard]] Work::Verdict verdict() const noexcept {
        const Work::Verdict verdict = verdict_.load(std::memory_order_acquire);
        const bool in_vain = verdict == Work::Verdict::unknown && peer->state() == PeerState::gone;
        return in_vain ? Work::Verdict::lost : verdict;
    }
    void answer(Work::Verdict verdict) noexcept { verdict_.store(verdict, std::memory_order_release); }

    const std::shared_ptr<Peer> peer;
    const std::uint32_t mark;
    const std::uint32_t next;     ///< the mark that takes its place, if the operation is carried out again
    const std::uint64_t message;  ///< the number of its notification

  private:
    std::atomic<Work::Verdict> verdict_{Work::Verdict::unknown};
};

/// An engine's, by their marks. Any thread.
class EarlyInquiries : public OpenInquiries<EarlyInquiry> {
  public:
    /// One more, which whoever asks keeps. Throws std::bad_alloc.
    std::shared_ptr<EarlyInquiry> ask(std::shared_ptr<Peer> peer, std::uint32_t mark, std::uint64_t message) {
        auto inquiry = std::make_shared<EarlyInquiry>(std::move(peer), mark, message);
        add(inquiry->peer->nonce(), mark, inquiry);
        return inquiry;
    }
    /// By that instance. Where nobody waits for it, it is ignored.
    void answered(std::uint64_t nonce, std::uint32_t mark, Work::Verdict verdict) noexcept {
        if (const auto inquiry = take_answered(nonce, mark)) inquiry->answer(verdict);
    }
};

}  // namespace railyard
