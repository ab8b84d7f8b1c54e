// Two processes that know each other, for tests that prepare and post on their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent_side.h"
#include "control.h"
#include "side_memory.h"
#include "target_process.h"
#include "workload.h"

namespace railyard::gpu {

/// Both sides have progress threads and memory for `layout`. Throws bench::Failure and railyard::Error.
class TwoSides {
  public:
    /// `words`: as for railyard-bench: provider, kinds of memory.
    TwoSides(std::vector<std::string> words, const bench::Layout& layout);
    ~TwoSides();

    [[nodiscard]] host::Agent& agent() { return side_->agent(); }
    [[nodiscard]] bench::SideMemory& memory() { return *memory_; }
    [[nodiscard]] const bench::Layout& layout() const noexcept { return layout_; }
    /// Of the memory of either side.
    [[nodiscard]] std::size_t length() const noexcept { return length_; }

    /// The target's memory as source, or as what is to be overwritten.
    void fill_target(std::uint64_t seed, bool source);
    /// What is wrong with it; empty: nothing.
    [[nodiscard]] std::string check_target();

    /// The blocks of one slot.
    [[nodiscard]] host::Request prepare(host::Op op, unsigned slot, std::string custom_param = {},
                                        std::optional<std::string> notification = std::nullopt);

  private:
    bench::Message call(bench::Message message);

    bench::Layout layout_;
    std::size_t length_;
    bench::Options options_;
    TargetProcess target_;
    bench::Control control_;
    std::optional<bench::SideMemory> memory_;
    std::optional<bench::AgentSide> side_;
    host::Range remote_;
};

/// Polls until the transfer ends; not_allowed when it has not within `patience`.
[[nodiscard]] Status end_of(host::Request& request);

/// Bytes of a side's memory for a layout: whole pages.
[[nodiscard]] std::size_t memory_of(const bench::Layout& layout);

}  // namespace railyard::gpu
