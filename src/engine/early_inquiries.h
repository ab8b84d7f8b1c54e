// What a writer asks the target of early notifications, before it carries out an operation once more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
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

/// An engine's. Any thread.
class EarlyInquiries {
  public:
    /// One more, which whoever asks keeps; it is forgotten with its last owner. Throws std::bad_alloc.
    std::shared_ptr<EarlyInquiry> ask(std::shared_ptr<Peer> peer, std::uint32_t mark, std::uint64_t message);
    /// Somebody waits for an answer.
    [[nodiscard]] bool has_open() const noexcept { return open_count_.load(std::memory_order_acquire) != 0; }
    struct Due {
        std::shared_ptr<EarlyInquiry> inquiry;  ///< nullptr: none
        bool again = false;
    };
    /// One that is to be sent now, for the first time or, in growing pauses, again.
    Due take_due(std::uint64_t now_ns) noexcept;
    /// By that instance. Where nobody waits for it, it is ignored.
    void answered(std::uint64_t nonce, std::uint32_t mark, Work::Verdict verdict) noexcept;

  private:
    struct Open {
        std::uint64_t nonce = 0;
        std::uint32_t mark = 0;
        std::weak_ptr<EarlyInquiry> inquiry;
        std::uint64_t due = 0;  ///< ns; at once
        std::uint64_t pause = first_pause_ns;
    };
    static constexpr std::uint64_t first_pause_ns = 50'000'000, longest_pause_ns = 1'000'000'000;
    void count() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        open_count_.store(open_.size(), std::memory_order_release);
    }

    Mutex mutex_;
    std::vector<Open> open_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> open_count_{0};
};

}  // namespace railyard
