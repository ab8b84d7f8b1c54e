// Which rail carries a small transfer: the least loaded of those that its thread has to itself.
#pragma once

#include <cstddef>
#include <span>

#include "common/thread_tag.h"
#include "rail/work.h"

namespace railyard {

struct RailChoice {
    std::size_t route = 0;
    bool own = false;     ///< the calling thread keeps its rail
    bool others = false;  ///< other threads keep some of the rest
};

/// Of routes that may carry the same chunks; those that have failed only where all have. Threads share the
/// rails evenly: one that comes takes its share of them from those who keep more. Where there are fewer rails
/// than threads, who has none uses what has the least to do. `may_keep`: the thread makes passes, too, as who
/// keeps rails must. Any thread.
[[nodiscard]] RailChoice choose_rail(std::span<const Route> routes, ThreadTag me, bool may_keep) noexcept;

}  // namespace railyard
