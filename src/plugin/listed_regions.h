// The descriptors of one of the host's lists, with the regions that they lie in.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace railyard::plugin {

/// Keeps the regions for as long as it lives: the host's handles of them may go meanwhile. One thread.
template <class Descriptor, class Region>
class ListedRegions {
  public:
    /// At most `size` descriptors.
    explicit ListedRegions(std::size_t size) : size_(size) { descriptors_.reserve(size); }
    ListedRegions(const ListedRegions&) = delete;
    ListedRegions& operator=(const ListedRegions&) = delete;

    void add(std::uint64_t address, std::uint64_t length, const std::shared_ptr<Region>& region) {
        descriptors_.push_back({address, length, keep(region)});
    }
    [[nodiscard]] const std::vector<Descriptor>& descriptors() const noexcept { return descriptors_; }
    /// Of the next one.
    [[nodiscard]] std::size_t index() const noexcept { return descriptors_.size(); }

  private:
    /// Lists name one region many times in a row, and mostly few of them: those take no memory.
    const std::shared_ptr<Region>* keep(const std::shared_ptr<Region>& region) {
        if (latest_ && *latest_ == region) return latest_;
        const auto end = first_.begin() + static_cast<std::ptrdiff_t>(used_);
        const auto known = std::find(first_.begin(), end, region);
        if (known != end) {
            latest_ = &*known;
        } else if (used_ < first_.size()) {
            latest_ = &(first_[used_++] = region);
        } else {
            if (others_.empty()) others_.reserve(size_);  // so that they stay where they are
            latest_ = &others_.emplace_back(region);
        }
        return latest_;
    }

    const std::size_t size_;
    std::vector<Descriptor> descriptors_;
    std::array<std::shared_ptr<Region>, 4> first_;
    std::size_t used_ = 0;
    std::vector<std::shared_ptr<Region>> others_;
    const std::shared_ptr<Region>* latest_ = nullptr;
};

using LocalRegions = ListedRegions<LocalDescriptor, Registration>;
using RemoteRegions = ListedRegions<RemoteDescriptor, RemoteRegion>;

}  // namespace railyard::plugin
