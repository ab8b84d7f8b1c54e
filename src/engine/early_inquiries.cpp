#include "engine/early_inquiries.h"

#include <algorithm>

namespace railyard {

std::shared_ptr<EarlyInquiry> EarlyInquiries::ask(std::shared_ptr<Peer> peer, std::uint32_t mark,
                                                  std::uint64_t message) {
    auto inquiry = std::make_shared<EarlyInquiry>(std::move(peer), mark, message);
    const MutexLock lock(mutex_);
    std::erase_if(open_, [](const Open& open) { return open.inquiry.expired(); });
    open_.push_back({inquiry->peer->nonce(), mark, inquiry});
    unsent_.push_back(inquiry);
    unsent_count_.store(unsent_.size(), std::memory_order_release);
    return inquiry;
}

std::vector<std::shared_ptr<EarlyInquiry>> EarlyInquiries::take_unsent() noexcept {
    const MutexLock lock(mutex_);
    unsent_count_.store(0, std::memory_order_relaxed);
    return std::exchange(unsent_, {});
}

void EarlyInquiries::answered(std::uint64_t nonce, std::uint32_t mark, Work::Verdict verdict) noexcept {
    // Let go of without the mutex: it may be the last to know its peer.
    std::shared_ptr<EarlyInquiry> inquiry;
    const MutexLock lock(mutex_);
    const auto asked = std::find_if(open_.begin(), open_.end(), [&](const Open& open) {
        return open.nonce == nonce && open.mark == mark;
    });
    if (asked == open_.end()) return;
    inquiry = asked->inquiry.lock();
    if (inquiry) inquiry->answer(verdict);
    open_.erase(asked);
}

}  // namespace railyard
