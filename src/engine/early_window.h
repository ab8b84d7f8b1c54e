// Notifications to a peer that leave together with their data: what it has said to them, and how many may be
// under way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace railyard {

/// What the immediate data of a WRITE with an early notification says: who wrote, as the target numbers its
/// writers, and which of their WRITEs it was.
struct EarlyMark {
    static constexpr unsigned sequence_bits = 22;
    static constexpr std::uint32_t most_writers = (std::uint32_t{1} << (32 - sequence_bits)) - 1;

    static constexpr std::uint32_t of(std::uint32_t writer, std::uint32_t sequence) noexcept {
        return writer << sequence_bits | (sequence & ((std::uint32_t{1} << sequence_bits) - 1));
    }
    static constexpr std::uint32_t after(std::uint32_t mark) noexcept {
        return of(writer_of(mark), mark + 1);
    }
    /// From 1 to most_writers; 0: of nobody.
    static constexpr std::uint32_t writer_of(std::uint32_t mark) noexcept { return mark >> sequence_bits; }
    /// How many WRITEs a writer may be ahead of what its target has looked at: the first writers of a target,
    /// and others. Each takes an entry of the target's completion queue, and those of all writers together,
    /// most_unread, fit into that.
    static constexpr std::uint8_t favoured_window = 64, narrow_window = 4;
    static constexpr std::uint32_t favoured_writers = 32;
    static constexpr std::uint32_t most_unread =
        favoured_writers * favoured_window + (most_writers - favoured_writers) * narrow_window;
};

/// The writer's side, one for each instance that is written to, and small, because each peer has one. Any
/// thread.
class EarlyWindow {
  public:
    /// Mark of one more, which counts until the target has told of it, and is under way until its end().
    /// Nothing: the notification has to follow its data.
    std::optional<std::uint32_t> begin() noexcept {
        std::optional<std::uint32_t> mark;
        change([&](State& state) {
            mark.reset();
            if (state.phase != usable || state.mark == 0 || state.left == 0 ||
                state.under_way == most_under_way)
                return false;
            --state.left;
            ++state.under_way;
            mark = take_mark(state);
            return true;
        });
        return mark;
    }
    /// Nothing of it comes any more.
    void end() noexcept {
        change([](State& state) {
            --state.under_way;
            return renew_after_doubt(state);
        });
    }
    /// The same of one that was not sent at all.
    void take_back() noexcept {
        credit(1, EarlyMark::writer_of(state_.load(std::memory_order_relaxed).mark));
        end();
    }
    /// The target has looked at so many more of those with that number.
    void credit(std::uint32_t count, std::uint32_t number) noexcept {
        change([&](State& state) {
            if (EarlyMark::writer_of(state.mark) != number) return false;
            state.left = static_cast<std::uint8_t>(
                std::min<std::uint64_t>(EarlyMark::favoured_window, std::uint64_t{state.left} + count));
            return true;
        });
    }
    /// The mark of a write that is under way and is carried out again, in the place of the one that it had.
    std::uint32_t replace() noexcept {
        doubt();
        std::uint32_t mark = 0;
        change([&](State& state) {
            mark = take_mark(state);
            return true;
        });
        return mark;
    }
    /// A write that is under way is carried out again or has failed: its mark may come twice, or late, and
    /// one that is used again after four million others must not be taken for it. No other is begun, and once
    /// none is under way any more, another number is asked for.
    void doubt() noexcept {
        change([](State& state) {
            if (state.phase != usable) return false;
            state.phase = doubted;
            return true;
        });
    }

    /// There is no number, and one may be asked for.
    [[nodiscard]] bool wants_number() const noexcept {
        return state_.load(std::memory_order_relaxed).phase < most_asked * asked_between;
    }
    /// The number that it takes the place of; 0: there was none.
    [[nodiscard]] std::uint32_t old_number() const noexcept {
        return EarlyMark::writer_of(state_.load(std::memory_order_relaxed).mark);
    }
    /// Where it is wanted: true where the target is to be asked for it now, the first time and a few times
    /// more until it has answered.
    [[nodiscard]] bool asks() noexcept {
        bool now = false;
        change([&](State& state) {
            now = false;
            if (state.phase >= most_asked * asked_between) return false;
            now = state.phase++ % asked_between == 0;
            return true;
        });
        return now;
    }
    /// To the question with that old number. `number`: 0 where it has none for us. `window`: how far it may
    /// be ahead. `first`: of the marks, any.
    void answer(std::uint32_t old_number, std::uint32_t number, std::uint32_t window,
                std::uint32_t first) noexcept {
        change([&](State& state) {
            if (state.phase > most_asked * asked_between || EarlyMark::writer_of(state.mark) != old_number)
                return false;
            state.phase = usable;
            state.left =
                static_cast<std::uint8_t>(std::min<std::uint32_t>(window, EarlyMark::favoured_window));
            state.mark = number == 0 ? 0 : EarlyMark::of(number, first);
            return true;
        });
    }

  private:
    /// Up to most_asked * asked_between: how often somebody has wanted a number since there was none.
    static constexpr std::uint16_t most_asked = 8, asked_between = 32, doubted = 1000, usable = 1001;
    static constexpr std::uint8_t most_under_way = UINT8_MAX;
    struct alignas(8) State {
        std::uint32_t mark = 0;  ///< the next one; 0: there is no number
        std::uint16_t phase = 0;
        std::uint8_t left = 0;       ///< that may be begun
        std::uint8_t under_way = 0;  ///< that have been
    };

    static std::uint32_t take_mark(State& state) noexcept {
        return std::exchange(state.mark, EarlyMark::after(state.mark));
    }
    static bool renew_after_doubt(State& state) noexcept {
        if (state.phase == doubted && state.under_way == 0) state.phase = 0;
        return true;
    }
    /// `how`: false where nothing is to be changed.
    template <class How>
    void change(const How& how) noexcept {
        State before = state_.load(std::memory_order_relaxed), after;
        do {
            after = before;
            if (!how(after)) return;
        } while (!state_.compare_exchange_weak(before, after, std::memory_order_relaxed));
    }

    std::atomic<State> state_{};
    static_assert(std::atomic<State>::is_always_lock_free);
};

}  // namespace railyard
