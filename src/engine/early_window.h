// Notifications to a peer that leave together with their data: what it has said to them, and how many may be
// under way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace railyard {

/// What the immediate data of an operation of a WRITE with an early notification says: who wrote, as the
/// target numbers its writers, and which of their operations it was.
struct EarlyMark {
    static constexpr unsigned sequence_bits = 22;
    static constexpr std::uint32_t most_writers = (std::uint32_t{1} << (32 - sequence_bits)) - 1;

    static constexpr std::uint32_t sequences = std::uint32_t{1} << sequence_bits;

    static constexpr std::uint32_t of(std::uint32_t writer, std::uint32_t sequence) noexcept {
        return writer << sequence_bits | (sequence & (sequences - 1));
    }
    /// From 1 to most_writers; 0: of nobody.
    static constexpr std::uint32_t writer_of(std::uint32_t mark) noexcept { return mark >> sequence_bits; }
    /// A WRITE of so many operations has so many marks, one after the other. More of them, and its
    /// notification follows its data.
    static constexpr std::uint32_t most_operations = 64;
    /// So many marks of one writer, none of which comes back to the first sequence.
    static constexpr bool are_one_range(std::uint32_t first, std::uint32_t operations) noexcept {
        return operations != 0 && operations <= most_operations && of(0, first) + operations <= sequences;
    }
    /// How many marks a writer may be ahead of what its target has looked at: the first writers of a target,
    /// and others. Each takes an entry of the target's completion queue, and those of all writers together,
    /// most_unread, fit into that.
    static constexpr std::uint8_t favoured_window = 128, narrow_window = 4;
    /// Targets that give a wider window than this know of notifications with several marks.
    static constexpr std::uint8_t widest_of_single = 64;
    static constexpr std::uint32_t favoured_writers = 32;
    static constexpr std::uint32_t most_unread =
        favoured_writers * favoured_window + (most_writers - favoured_writers) * narrow_window;
};

/// The marks of one WRITE.
struct EarlyMarks {
    std::uint32_t first = 0;
    std::uint8_t operations = 1;  ///< each has one
    bool operator==(const EarlyMarks&) const = default;
};

/// The writer's side, one for each instance that is written to, and small, because each peer has one. Any
/// thread.
class EarlyWindow {
  public:
    /// First mark of one more that has so many, which count until the target has told of them; it is under
    /// way until its end(). Nothing: the notification has to follow its data.
    std::optional<std::uint32_t> begin(std::uint32_t operations = 1) noexcept {
        std::optional<std::uint32_t> mark;
        change([&](State& state) {
            mark.reset();
            if (state.phase < (operations == 1 ? usable : usable_for_several) || state.mark == 0 ||
                state.left < operations || state.under_way == most_under_way)
                return false;
            state.left = static_cast<std::uint8_t>(state.left - operations);
            ++state.under_way;
            if (!EarlyMark::are_one_range(state.mark, operations))
                state.mark = EarlyMark::of(EarlyMark::writer_of(state.mark), 0);
            mark = take_marks(state, operations);
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
    void take_back(std::uint32_t operations) noexcept {
        credit(operations, EarlyMark::writer_of(state_.load(std::memory_order_relaxed).mark));
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
        forget_dearth();
    }
    /// The mark of an operation that is under way and is carried out again, in the place of the one that it
    /// had.
    std::uint32_t replace() noexcept {
        doubt();
        std::uint32_t mark = 0;
        change([&](State& state) {
            mark = take_marks(state, 1);
            return true;
        });
        return mark;
    }
    /// A write that is under way is carried out again or has failed: its mark may come twice, or late, and
    /// one that is used again after four million others must not be taken for it. No other is begun, and once
    /// none is under way any more, another number is asked for.
    void doubt() noexcept {
        change([](State& state) {
            if (state.phase < usable) return false;
            state.phase = doubted;
            return true;
        });
    }

    /// What the target says of the marks that it has looked at may be lost, and it says each thing once.
    static constexpr std::uint64_t longest_dearth_ns = 1'000'000'000;
    /// After which a target that had no number for us may have one: as long as its closed ones rest.
    static constexpr std::uint64_t refused_pause_ns = 10'000'000'000;
    /// To be called where one that has so many could not begin. True: for want of marks, as others before it,
    /// all the time since longest_dearth_ns; no other is begun, and another number is asked for, as after
    /// doubt(). One of several threads that call it hears so. Where the target had no number, one is asked
    /// for after refused_pause_ns.
    [[nodiscard]] bool ends_dearth(std::uint32_t operations, std::uint64_t now_ns) noexcept {
        const State state = state_.load(std::memory_order_relaxed);
        const bool refused = state.phase >= usable && state.mark == 0;
        if (!refused &&
            (state.phase < (operations == 1 ? usable : usable_for_several) || state.left >= operations))
            return false;
        if (!has_passed(refused ? refused_pause_ns : longest_dearth_ns, now_ns)) return false;
        if (refused) {
            change([](State& numberless) {
                if (numberless.phase < usable || numberless.mark != 0) return false;
                numberless.phase = 0;
                return true;
            });
            return false;
        }
        change([](State& doubtful) {
            if (doubtful.phase < usable) return false;
            doubtful.phase = doubted;
            return renew_after_doubt(doubtful);
        });
        return true;
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
            state.phase = window > EarlyMark::widest_of_single ? usable_for_several : usable;
            state.left =
                static_cast<std::uint8_t>(std::min<std::uint32_t>(window, EarlyMark::favoured_window));
            state.mark = number == 0 ? 0 : EarlyMark::of(number, first);
            return true;
        });
        forget_dearth();
    }

  private:
    /// Up to most_asked * asked_between: how often somebody has wanted a number since there was none.
    static constexpr std::uint16_t most_asked = 8, asked_between = 32, doubted = 1000, usable = 1001,
                                   usable_for_several = 1002;
    static constexpr std::uint8_t most_under_way = UINT8_MAX;
    struct alignas(8) State {
        std::uint32_t mark = 0;  ///< the next one; 0: there is no number
        std::uint16_t phase = 0;
        std::uint8_t left = 0;       ///< marks that may be used
        std::uint8_t under_way = 0;  ///< that have been begun
    };

    static std::uint32_t take_marks(State& state, std::uint32_t count) noexcept {
        return std::exchange(state.mark, EarlyMark::of(EarlyMark::writer_of(state.mark), state.mark + count));
    }
    static bool renew_after_doubt(State& state) noexcept {
        if (state.phase == doubted && state.under_way == 0) state.phase = 0;
        return true;
    }
    /// Since the first call after forget_dearth(), to one of several threads.
    bool has_passed(std::uint64_t pause_ns, std::uint64_t now_ns) noexcept {
        std::uint64_t since = dearth_since_.load(std::memory_order_relaxed);
        if (since == 0) {
            dearth_since_.store(now_ns, std::memory_order_relaxed);
            return false;
        }
        return now_ns >= since + pause_ns &&
               dearth_since_.compare_exchange_strong(since, 0, std::memory_order_relaxed);
    }
    void forget_dearth() noexcept {
        if (dearth_since_.load(std::memory_order_relaxed)) dearth_since_.store(0, std::memory_order_relaxed);
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
    std::atomic<std::uint64_t> dearth_since_{
        0};  ///< ns; the target has told of no mark, or had no number, since; 0: none lacked
    static_assert(std::atomic<State>::is_always_lock_free);
};

}  // namespace railyard
