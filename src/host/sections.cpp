#include "host/sections.h"

#include <utility>

namespace railyard::host {

nixl_mem_t memory_type(std::uint64_t device) noexcept {
    return device == 0 ? DRAM_SEG : VRAM_SEG;
}

std::uint64_t plugin_device(std::uint64_t device) noexcept {
    return device == 0 ? 0 : device - 1;
}

bool contains(const Range& outer, const Range& inner) noexcept {
    return outer.device == inner.device && inner.address >= outer.address && inner.length <= outer.length &&
           inner.address - outer.address <= outer.length - inner.length;
}

void Sections::add(Section section) {
    sections_.push_back(std::move(section));
}

const Section* Sections::around(const Range& range) const noexcept {
    if (last_ < sections_.size() && contains(sections_[last_].range, range)) return &sections_[last_];
    for (std::size_t i = 0; i < sections_.size(); ++i) {
        if (!contains(sections_[i].range, range)) continue;
        last_ = i;
        return &sections_[i];
    }
    return nullptr;
}

const Section* Sections::exactly(const Range& range) const noexcept {
    for (const Section& section : sections_)
        if (section.range.address == range.address && section.range.length == range.length &&
            section.range.device == range.device)
            return &section;
    return nullptr;
}

void Sections::remove(const Section* section) {
    sections_.erase(sections_.begin() + (section - sections_.data()));
}

}  // namespace railyard::host
