#include "engine/early_inquiries.h"

#include <algorithm>

namespace railyard {

std::shared_ptr<EarlyInquiry> EarlyInquiries::ask(std::shared_ptr<Peer> peer, std::uint32_t mark,
                                                  std::uint64_t message) {
    auto inquiry = std::make_shared<EarlyInquiry>(std::move(peer), mark, message);
    const MutexLock lock(mutex_);
    open_.push_back({inquiry->peer->nonce(), mark, inquiry});
    count();
    return inquiry;
}

EarlyInquiries::Due EarlyInquiries::take_due(std::uint64_t now_ns) noexcept {
    Due due;
    const MutexLock lock(mutex_);
    std::erase_if(open_, [](const Open& open) { return open.inquiry.expired(); });
    for (auto open = open_.begin(); !due.inquiry && open != open_.end(); ++open) {
        if (open->due > now_ns) continue;
        due = {open->inquiry.lock(), open->due != 0};
        open->due = now_ns + open->pause;
        open->pause = std::min(2 * open->pause, longest_pause_ns);
    }
    count();
    return due;
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
    count();
}

}  // namespace railyard
