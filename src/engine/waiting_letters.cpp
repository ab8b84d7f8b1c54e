#include "engine/waiting_letters.h"

#include <utility>

#include "common/log.h"

namespace railyard {

void WaitingLetters::keep(Letter letter, std::uint64_t now_ns) {
    const MutexLock lock(mutex_);
    drop_late(now_ns);
    const std::size_t size = letter.text.size();
    letters_.push_back({std::move(letter), now_ns});
    bytes_ += size;
    while (letters_.size() > most || bytes_ > most_bytes)
        drop_first();
}

std::vector<Letter> WaitingLetters::take(std::uint64_t nonce, std::uint64_t now_ns) {
    std::vector<Letter> taken;
    const MutexLock lock(mutex_);
    if (letters_.empty()) return taken;
    drop_late(now_ns);
    for (Waiting& waiting : letters_) {
        if (waiting.letter.nonce != nonce) continue;
        bytes_ -= waiting.letter.text.size();
        taken.push_back(std::move(waiting.letter));
        waiting.since = 0;
    }
    std::erase_if(letters_, [](const Waiting& waiting) { return waiting.since == 0; });
    return taken;
}

std::size_t WaitingLetters::count() const {
    const MutexLock lock(mutex_);
    return letters_.size();
}

void WaitingLetters::drop_first() {
    const Letter& letter = letters_.front().letter;
    RAILYARD_LOG(warn, letter.agent.c_str(),
                 "control message refused: of an instance that has not introduced itself");
    bytes_ -= letter.text.size();
    letters_.pop_front();
}

void WaitingLetters::drop_late(std::uint64_t now_ns) {
    while (!letters_.empty() && now_ns - letters_.front().since > patience_ns_)
        drop_first();
}

}  // namespace railyard
