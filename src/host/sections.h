// The regions of one agent, own or a peer's, and the search for the one that holds a range.
#pragma once

#include <backend/backend_aux.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/agent.h"

namespace railyard::host {

/// Device 0 is host memory, device n > 0 is GPU n - 1.
[[nodiscard]] nixl_mem_t memory_type(std::uint64_t device) noexcept;
[[nodiscard]] std::uint64_t plugin_device(std::uint64_t device) noexcept;

struct Section {
    Range range;
    nixlBackendMD* handle = nullptr;     ///< from registerMem; nullptr for a peer's region
    nixlBackendMD* as_target = nullptr;  ///< from loadLocalMD or loadRemoteMD
    std::string published = {};          ///< from getPublicData
};

/// Exact arithmetic: a range whose end wraps around is inside nothing.
[[nodiscard]] bool contains(const Range& outer, const Range& inner) noexcept;

/// Regions in the order they came; they may overlap. One thread at a time.
class Sections {
  public:
    void add(Section section);
    /// The section that holds all of `range`, nullptr when there is none. Long lists of descriptors mostly
    /// stay in one section, so the last answer is tried first.
    [[nodiscard]] const Section* around(const Range& range) const noexcept;
    [[nodiscard]] const Section* exactly(const Range& range) const noexcept;
    void remove(const Section* section);
    [[nodiscard]] const std::vector<Section>& all() const noexcept { return sections_; }

  private:
    std::vector<Section> sections_;
    mutable std::size_t last_ = 0;
};

}  // namespace railyard::host
