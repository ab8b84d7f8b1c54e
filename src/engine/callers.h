// What threads of the application leave behind with every post and poll: each in a place of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "common/thread_tag.h"
#include "engine/rate_model.h"

namespace railyard {

/// Two threads may have the same place, where their counts are rough. Any thread.
class Callers {
  public:
    struct alignas(cache_line) Place {
        /// Roughly: two at once may count as one, which is less than a locked instruction in each.
        void count_pass() noexcept {
            passes.store(passes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        /// It has begun some: what it posts, it will look after.
        [[nodiscard]] bool makes_passes() const noexcept {
            return passes.load(std::memory_order_relaxed) != 0;
        }
        std::atomic<std::uint64_t> passes{0};  ///< over the rails
        RateModel rates;                       ///< of transfers whose end was seen there
    };

    [[nodiscard]] Place& mine() noexcept { return places_[slot_of(this_thread_tag())]; }
    [[nodiscard]] std::uint64_t passes() const noexcept {
        std::uint64_t sum = 0;
        for (const Place& place : places_)
            sum += place.passes.load(std::memory_order_relaxed);
        return sum;
    }
    /// Of all threads together.
    [[nodiscard]] RateModel rates() const noexcept {
        RateModel all;
        for (const Place& place : places_)
            all.blend_in(place.rates);
        return all;
    }

  private:
    std::array<Place, thread_slots> places_;
};

}  // namespace railyard
