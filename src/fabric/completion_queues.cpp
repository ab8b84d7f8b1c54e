#include "fabric/completion_queues.h"

#include <utility>

namespace railyard::fabric {

CompletionQueues::CompletionQueues(const Domain& domain, const Depths& depths, bool blocking)
    : domain_(domain),
      own_sent_(domain.caps().spoils_queue && domain.caps().separate_sender),
      blocking_(blocking),
      depth_(depths.sent),
      received_(domain, depths.received + (own_sent_ ? 0 : depths.sent), blocking, depths.least) {
    open_sent();
}

void CompletionQueues::open_sent() {
    if (own_sent_ && !sent_) sent_ = std::make_unique<CompletionQueue>(domain_, depth_, blocking_);
}

bool CompletionQueues::close_sent() noexcept {
    if (!own_sent_) return false;
    if (const auto closed = std::exchange(sent_, nullptr)) {
        was_broken_ = was_broken_ || closed->broken();
        was_gone_ = was_gone_ || closed->device_gone();
        flushed_before_ += closed->flushed();
    }
    return true;
}

void CompletionQueues::drain_whole(std::size_t limit) noexcept {
    received_.drain_whole(limit);
    if (sent_) sent_->drain_whole(limit);
}

void CompletionQueues::drop(std::size_t limit) noexcept {
    received_.drop(limit);
    if (sent_) sent_->drop(limit);
}

void CompletionQueues::drop_ended(std::size_t limit) noexcept {
    received_.drop_ended(limit);
    if (sent_) sent_->drop_ended(limit);
}

std::uint64_t CompletionQueues::flushed() const noexcept {
    return received_.flushed() + flushed_before_ + (sent_ ? sent_->flushed() : 0);
}

bool CompletionQueues::device_gone() const noexcept {
    return received_.device_gone() || was_gone_ || (sent_ && sent_->device_gone());
}

}  // namespace railyard::fabric
