#include "request_ring.h"

#include <string>
#include <utility>

#include "common/status.h"

namespace railyard::bench {

void RequestRing::reset(std::vector<host::Request> requests, bool moves_once) {
    requests_ = std::move(requests);
    const auto count = static_cast<unsigned>(requests_.size());
    next_.assign(count + 1, count);
    previous_.assign(count + 1, count);
    scan_ = count;
    at_once_.clear();
    at_once_.reserve(count);
    done_.clear();
    done_.reserve(count);
    moves_once_ = moves_once;
    has_moved_.assign(moves_once ? count : 0, false);
}

const unsigned* RequestRing::oldest() const noexcept {
    if (next_.empty() || next_.back() == next_.size() - 1) return nullptr;
    return &next_.back();
}

void RequestRing::post(unsigned slot) {
    if (moves_once_) [[unlikely]] {
        if (has_moved_[slot]) return at_once_.push_back(slot);
        has_moved_[slot] = true;
    }
    Status status = requests_[slot].post();
    if (status == Status::in_progress) {
        append(slot);
    } else if (status == Status::ok) {
        at_once_.push_back(slot);
    } else {
        throw TransferFailed(slot, std::string("a post failed: ") + railyard::to_string(status));
    }
}

bool RequestRing::ended(unsigned slot) {
    Status status = requests_[slot].poll();
    if (status == Status::in_progress) return false;
    if (status != Status::ok)
        throw TransferFailed(slot, std::string("a transfer failed: ") + railyard::to_string(status));
    remove(slot);
    done_.push_back(slot);
    return true;
}

std::span<const unsigned> RequestRing::harvest() {
    done_.clear();
    std::swap(done_, at_once_);
    auto end = static_cast<unsigned>(next_.size() - 1);
    // One at a time: to poll the next one first would let the network run on before this one's slot is
    // reused.
    if (next_[end] != end && ended(next_[end])) return done_;
    if (scan_ == end) scan_ = next_[end];
    if (scan_ != next_[end]) {
        unsigned slot = scan_;
        scan_ = next_[slot];
        ended(slot);
    } else if (scan_ != end) {
        scan_ = next_[scan_];
    }
    return done_;
}

void RequestRing::append(unsigned slot) noexcept {
    auto end = static_cast<unsigned>(next_.size() - 1);
    unsigned last = previous_[end];
    next_[last] = slot;
    previous_[slot] = last;
    next_[slot] = end;
    previous_[end] = slot;
}

void RequestRing::remove(unsigned slot) noexcept {
    if (scan_ == slot) scan_ = next_[slot];
    next_[previous_[slot]] = next_[slot];
    previous_[next_[slot]] = previous_[slot];
}

}  // namespace railyard::bench
