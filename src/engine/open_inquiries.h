// Questions to peers that somebody waits for the answer of.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"

namespace railyard {

/// An engine's of one kind. Any thread.
template <class Inquiry>
class OpenInquiries {
  public:
    /// One more, which whoever asks keeps; it is forgotten with its last owner. `number` tells it from others
    /// to that instance. Throws std::bad_alloc.
    void add(std::uint64_t nonce, std::uint64_t number, const std::shared_ptr<Inquiry>& inquiry) {
        const MutexLock lock(mutex_);
        open_.push_back({nonce, number, inquiry});
        count();
    }
    /// The same in the place of `latest`, which may be the last to know its peer, while a rail's role is
    /// held: that one is kept until the next take_due(). `latest` stays where nothing is added.
    void add_instead(std::shared_ptr<Inquiry>& latest, std::uint64_t nonce, std::uint64_t number,
                     std::shared_ptr<Inquiry> inquiry) {
        std::list<std::shared_ptr<Inquiry>> former(1);
        const MutexLock lock(mutex_);
        open_.push_back({nonce, number, inquiry});
        latest.swap(inquiry);
        former.front().swap(inquiry);
        former_.splice(former_.end(), former);
        count();
    }
    /// Somebody waits for an answer, or take_due() has something to free.
    [[nodiscard]] bool has_open() const noexcept { return open_count_.load(std::memory_order_acquire) != 0; }
    struct Due {
        std::shared_ptr<Inquiry> inquiry;  ///< nullptr: none
        bool again = false;
        /// ns between the times that it was to be sent, each as short as it is meant to be: a time in which
        /// nobody looked counts as one pause.
        std::uint64_t waited = 0;
    };
    /// One that is to be sent now, for the first time or, in growing pauses, again. Not with a rail's role
    /// held.
    Due take_due(std::uint64_t now_ns) noexcept {
        Due due;
        std::list<std::shared_ptr<Inquiry>> former;  // freed without the lock
        const MutexLock lock(mutex_);
        former.swap(former_);
        std::erase_if(open_, [](const Open& open) { return open.inquiry.expired(); });
        for (auto open = open_.begin(); !due.inquiry && open != open_.end(); ++open) {
            if (open->due > now_ns) continue;
            due = {open->inquiry.lock(), open->due != 0, open->waited};
            open->due = now_ns + open->pause;
            open->waited += open->pause;
            open->pause = std::min(2 * open->pause, longest_pause_ns);
        }
        count();
        return due;
    }
    /// By that instance, and it is not asked about any more. nullptr: nobody waits for it. Whoever has it may
    /// be the last to know its peer.
    std::shared_ptr<Inquiry> take_answered(std::uint64_t nonce, std::uint64_t number) noexcept {
        const MutexLock lock(mutex_);
        const auto asked = std::find_if(open_.begin(), open_.end(), [&](const Open& open) {
            return open.nonce == nonce && open.number == number;
        });
        if (asked == open_.end()) return nullptr;
        std::shared_ptr<Inquiry> inquiry = asked->inquiry.lock();
        open_.erase(asked);
        count();
        return inquiry;
    }

  private:
    struct Open {
        std::uint64_t nonce = 0;
        std::uint64_t number = 0;
        std::weak_ptr<Inquiry> inquiry;
        std::uint64_t due = 0;  ///< ns; at once
        std::uint64_t pause = first_pause_ns;
        std::uint64_t waited = 0;  ///< ns
    };
    static constexpr std::uint64_t first_pause_ns = 50'000'000, longest_pause_ns = 1'000'000'000;
    void count() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        open_count_.store(open_.size() + former_.size(), std::memory_order_release);
    }

    Mutex mutex_;
    std::vector<Open> open_ ABSL_GUARDED_BY(mutex_);
    std::list<std::shared_ptr<Inquiry>> former_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> open_count_{0};
};

}  // namespace railyard
