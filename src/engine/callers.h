// What threads of the application leave behind with every post and poll: each in a place of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "common/thread_tag.h"
#include "engine/rate_model.h"

namespace railyard {

/// The first threads have a place each; those after thread_slots of them, ever, share others', where counts
/// are rough. Any thread.
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
        /// One post. True: time to look at who keeps rails, whatever handle it is of.
        [[nodiscard]] bool count_post() noexcept {
            const std::uint32_t count = posts.load(std::memory_order_relaxed) + 1;
            posts.store(count, std::memory_order_relaxed);
            return count % posts_per_look == 0;
        }
        /// A batch of small chunks that is posted there. True: time to compare().
        [[nodiscard]] bool count_batch(std::uint64_t bytes) noexcept {
            posted.store(posted.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
            const std::uint32_t count = batches.load(std::memory_order_relaxed) + 1;
            batches.store(count, std::memory_order_relaxed);
            return count % batches_per_look == 0;
        }
        /// A block that may stay whole is posted, beside others or alone. True: some of the last ones were
        /// beside others, which may all have ended just now.
        [[nodiscard]] bool count_block(bool beside_others) noexcept {
            const std::uint32_t left =
                beside_others ? blocks_remembered : abreast.load(std::memory_order_relaxed);
            if (left == 0) return false;
            abreast.store(left - 1, std::memory_order_relaxed);
            return true;
        }
        /// Of late, as of the last look.
        [[nodiscard]] bool posts_its_share() const noexcept { return fair.load(std::memory_order_relaxed); }
        std::atomic<ThreadTag> owner{no_thread};
        std::atomic<std::uint64_t> passes{0};  ///< over the rails
        RateModel rates;                       ///< of transfers whose end was seen there
        std::atomic<std::uint64_t> posted{0};  ///< bytes, in batches of small chunks
        std::atomic<std::uint64_t> posted_before{0}, all_posted_before{0};  ///< at the last look
        std::atomic<std::uint32_t> posts{0}, batches{0};
        std::atomic<std::uint32_t> abreast{0};  ///< blocks that are yet taken for some of several
        std::atomic<bool> fair{false};
    };

    static constexpr std::uint32_t posts_per_look = 64, batches_per_look = 16;
    static constexpr std::uint32_t blocks_remembered = 4;

    [[nodiscard]] Place& of(ThreadTag thread) noexcept {
        Place& home = places_[slot_of(thread)];
        return home.owner.load(std::memory_order_relaxed) == thread ? home : find(thread);
    }
    [[nodiscard]] Place& mine() noexcept { return of(this_thread_tag()); }
    [[nodiscard]] std::uint64_t passes() const noexcept {
        std::uint64_t sum = 0;
        for (const Place& place : places_)
            sum += place.passes.load(std::memory_order_relaxed);
        return sum;
    }
    /// Is what was posted at `mine` since the last look no more of what all threads posted than `own` is of
    /// `all`, which are weights of rails? A quarter more is taken for as much.
    void compare(Place& mine, std::uint64_t own, std::uint64_t all) noexcept {
        std::uint64_t sum = 0;
        for (const Place& place : places_)
            sum += place.posted.load(std::memory_order_relaxed);
        const std::uint64_t posted = mine.posted.load(std::memory_order_relaxed);
        const std::uint64_t by_me = posted - mine.posted_before.exchange(posted, std::memory_order_relaxed);
        const std::uint64_t by_all = sum - mine.all_posted_before.exchange(sum, std::memory_order_relaxed);
        mine.fair.store(4 * by_me * all <= 5 * by_all * own, std::memory_order_relaxed);
    }
    /// Of all threads together.
    [[nodiscard]] RateModel rates() const noexcept {
        RateModel all;
        for (const Place& place : places_)
            all.blend_in(place.rates);
        return all;
    }

  private:
    /// The place it has, or the next one from its slot on that nobody has; that of its slot where there is
    /// none.
    [[gnu::cold, gnu::noinline]] Place& find(ThreadTag thread) noexcept {
        const std::size_t home = slot_of(thread);
        for (std::size_t i = 0; i < thread_slots; ++i) {
            Place& place = places_[(home + i) % thread_slots];
            ThreadTag owner = place.owner.load(std::memory_order_relaxed);
            if (owner == no_thread && place.owner.compare_exchange_strong(owner, thread)) return place;
            if (owner == thread) return place;
        }
        return places_[home];
    }

    std::array<Place, thread_slots> places_;
};

}  // namespace railyard
