// What a peer asks the owner of memory whose NIC has refused its key (ADR 38).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "engine/open_inquiries.h"
#include "engine/peer.h"
#include "engine/request.h"
#include "manager/registration.h"
#include "rail/work.h"

namespace railyard {

/// Which keys a region of a peer's has now. Any thread.
class KeyInquiry {
  public:
    /// `region` has rails. Throws std::bad_alloc.
    KeyInquiry(std::shared_ptr<Peer> asked, std::uint64_t id, const RemoteRegion& region,
               const Work::Refusal& refusal)
        : peer(std::move(asked)),
          question{id,
                   region.address,
                   region.length,
                   region.device_id,
                   region.rails.front(),
                   region.keys.front().key,
                   refusal.route.remote_rail,
                   refusal.key},
          rails(region.rails) {}
    /// Until the answer, lost once the peer is gone.
    [[nodiscard]] Work::Verdict verdict() const noexcept {
        const Work::Verdict verdict = verdict_.load(std::memory_order_acquire);
        const bool in_vain = verdict == Work::Verdict::unknown && peer->state() == PeerState::gone;
        return in_vain ? Work::Verdict::lost : verdict;
    }
    /// Once. No keys: it has none.
    void answer(KeyTable keys) noexcept {
        keys_ = std::move(keys);
        verdict_.store(keys_.keys.empty() ? Work::Verdict::lost : Work::Verdict::repeat,
                       std::memory_order_release);
    }
    /// Of one that may be repeated.
    [[nodiscard]] const KeyTable& keys() const noexcept { return keys_; }

    const std::shared_ptr<Peer> peer;
    const KeyQuestion question;
    const RailSet rails;  ///< that the region has keys for
    const std::uint64_t asked_at = now_ns();

  private:
    KeyTable keys_;
    std::atomic<Work::Verdict> verdict_{Work::Verdict::unknown};
};

/// An engine's, by their ids. Any thread.
class KeyInquiries : public OpenInquiries<KeyInquiry> {
  public:
    /// One more, which whoever asks keeps, in the place of `latest`. With a rail's role held. Throws
    /// std::bad_alloc, and `latest` stays.
    void ask(std::shared_ptr<KeyInquiry>& latest, const std::shared_ptr<Peer>& peer,
             const RemoteRegion& region, const Work::Refusal& refusal) {
        const std::uint64_t id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
        add_instead(latest, peer->nonce(), id, std::make_shared<KeyInquiry>(peer, id, region, refusal));
    }

  private:
    std::atomic<std::uint64_t> last_id_{0};
};

}  // namespace railyard
