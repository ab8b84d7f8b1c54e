#include "engine/waiting_letters.h"

#include <utility>

#include "common/log.h"

namespace railyard {

void WaitingLetters::keep(Letters letters, std::uint64_t now_ns) noexcept {
    const MutexLock lock(mutex_);
    drop_late(now_ns);
    for (Letter& letter : letters) {
        letter.kept_since = now_ns;
        bytes_ += letter.text.size();
    }
    letters_.splice(letters_.end(), letters);
    while (letters_.size() > most || bytes_ > most_bytes)
        drop_first();
}

Letters WaitingLetters::take(std::uint64_t nonce, std::uint64_t now_ns) noexcept {
    Letters taken;
    const MutexLock lock(mutex_);
    drop_late(now_ns);
    for (auto at = letters_.begin(); at != letters_.end();) {
        const auto letter = at++;
        if (letter->nonce != nonce) continue;
        bytes_ -= letter->text.size();
        taken.splice(taken.end(), letters_, letter);
    }
    return taken;
}

std::size_t WaitingLetters::count() const {
    const MutexLock lock(mutex_);
    return letters_.size();
}

void WaitingLetters::drop_first() noexcept {
    const Letter& letter = letters_.front();
    RAILYARD_LOG(warn, letter.agent.c_str(),
                 "control message refused: of an instance that has not introduced itself");
    bytes_ -= letter.text.size();
    letters_.pop_front();
}

void WaitingLetters::drop_late(std::uint64_t now_ns) noexcept {
    // Another thread may have kept the first one after this one had read the clock.
    while (!letters_.empty() && now_ns > letters_.front().kept_since + patience_ns_)
        drop_first();
}

}  // namespace railyard
