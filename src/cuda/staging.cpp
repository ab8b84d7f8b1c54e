#include "cuda/staging.h"

namespace railyard::cuda {

StagingRing::StagingRing(ContextPtr context, unsigned slots, std::size_t slot_bytes,
                         std::shared_ptr<const CopyKernel> kernel)
    : slot_bytes_(slot_bytes),
      memory_(std::make_shared<const PinnedMemory>(context, slots * slot_bytes)),
      from_device_(context, slots, kernel),
      to_device_(context, slots, std::move(kernel)),
      slots_(slots, Direction::from_device),
      free_(slots),
      free_count_(slots) {
    for (unsigned slot = 0; slot < slots; ++slot)
        free_[slot] = slot;
}

unsigned StagingRing::take() noexcept {
    const MutexLock lock(mutex_);
    if (free_count_ == 0) return no_slot;
    const unsigned slot = free_[first_free_];
    first_free_ = (first_free_ + 1) % free_.size();
    --free_count_;
    return slot;
}

void StagingRing::give_back(unsigned slot) noexcept {
    const MutexLock lock(mutex_);
    free_[(first_free_ + free_count_) % free_.size()] = slot;
    ++free_count_;
}

Status StagingRing::copy(unsigned slot, Direction direction, const StagedPiece* pieces, std::size_t count,
                         Reach reach) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        if (pieces[i].offset > slot_bytes_ || pieces[i].length > slot_bytes_ - pieces[i].offset)
            return Status::invalid_param;
    }
    slots_[slot] = direction;
    const bool out = direction == Direction::from_device;
    const std::uint64_t base = memory_->device_address() + slot * slot_bytes_;
    CopyStream::Group group(out ? from_device_ : to_device_, slot, reach);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t here = base + pieces[i].offset, there = pieces[i].device_address;
        group.add(out ? Copy{here, there, pieces[i].length} : Copy{there, here, pieces[i].length});
    }
    return Status::in_progress;
}

Status StagingRing::copy_from_device(unsigned slot, const StagedPiece* pieces, std::size_t count,
                                     Reach reach) noexcept {
    return copy(slot, Direction::from_device, pieces, count, reach);
}

Status StagingRing::copy_to_device(unsigned slot, const StagedPiece* pieces, std::size_t count,
                                   Reach reach) noexcept {
    return copy(slot, Direction::to_device, pieces, count, reach);
}

Status StagingRing::poll(unsigned slot) noexcept {
    return stream_of(slot).poll(slot);
}

std::string StagingRing::last_error() const {
    const std::string error = from_device_.last_error();
    return error.empty() ? to_device_.last_error() : error;
}

}  // namespace railyard::cuda
