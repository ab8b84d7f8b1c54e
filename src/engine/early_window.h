// Notifications to a peer that leave together with their data: what it has said to them, and how many may be
// under way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

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
    /// How many WRITEs that writer may be ahead of what its target has looked at. Each takes an entry of the
    /// target's completion queue, and those of all writers together, most_unread, fit into that.
    static constexpr std::uint8_t window_of(std::uint32_t writer) noexcept {
        return writer <= favoured_writers ? favoured_window : narrow_window;
    }
    static constexpr std::uint32_t favoured_writers = 64;
    static constexpr std::uint8_t favoured_window = 64, narrow_window = 4;
    static constexpr std::uint32_t most_unread =
        favoured_writers * favoured_window + (most_writers - favoured_writers) * narrow_window;
};

/// The writer's side, one for each instance that is written to, and small, because each peer has one. Any
/// thread.
class EarlyWindow {
  public:
    /// Mark of one more, which counts until the target has told of it. Nothing: the notification has to
    /// follow its data.
    std::optional<std::uint32_t> begin() noexcept {
        if (mark_.load(std::memory_order_acquire) == 0 || doubted_.load(std::memory_order_relaxed))
            return std::nullopt;
        std::uint8_t left = left_.load(std::memory_order_relaxed);
        do {
            if (left == 0) return std::nullopt;
        } while (!left_.compare_exchange_weak(left, static_cast<std::uint8_t>(left - 1),
                                              std::memory_order_relaxed));
        return next();
    }
    /// So many more may come: the target has looked at as many, or they were not sent after all.
    void credit(std::uint32_t count) noexcept {
        const std::uint8_t window =
            EarlyMark::window_of(EarlyMark::writer_of(mark_.load(std::memory_order_relaxed)));
        std::uint8_t left = left_.load(std::memory_order_relaxed), after = 0;
        do {
            after = static_cast<std::uint8_t>(std::min<std::uint64_t>(window, std::uint64_t{left} + count));
        } while (!left_.compare_exchange_weak(left, after, std::memory_order_relaxed));
    }
    /// The mark of a write that is carried out again, in the place of the one that it had. begin() gives none
    /// from then on.
    std::uint32_t replace() noexcept {
        doubt();
        return next();
    }

    /// There is no answer yet, and it may come, or may be asked for.
    [[nodiscard]] bool wants_number() const noexcept {
        return wanted_.load(std::memory_order_relaxed) < most_asked * wanted_between;
    }
    /// While that is so: true where the target is to be asked for a number now, the first time and a few
    /// times more until it has answered.
    [[nodiscard]] bool asks() noexcept {
        return wanted_.fetch_add(1, std::memory_order_relaxed) % wanted_between == 0;
    }
    /// `writer`: 0 where it has none for us. `first`: of the marks, any.
    void answer(std::uint32_t writer, std::uint32_t first) noexcept {
        if (wanted_.exchange(answered, std::memory_order_relaxed) == answered) return;
        left_.store(EarlyMark::window_of(writer), std::memory_order_relaxed);
        mark_.store(writer == 0 ? 0 : EarlyMark::of(writer, first), std::memory_order_release);
    }

    /// For good, where a write with a mark is carried out again or has failed: its mark may come twice, or
    /// late, and one that is used again after four million others must not be taken for it.
    void doubt() noexcept { doubted_.store(true, std::memory_order_relaxed); }

  private:
    static constexpr std::uint16_t most_asked = 8, wanted_between = 32, answered = UINT16_MAX / 2;

    std::uint32_t next() noexcept {
        std::uint32_t mark = mark_.load(std::memory_order_relaxed);
        while (!mark_.compare_exchange_weak(mark, EarlyMark::after(mark), std::memory_order_relaxed)) {
        }
        return mark;
    }

    std::atomic<std::uint32_t> mark_{0};  ///< the next one; 0: we have no number yet
    std::atomic<std::uint16_t> wanted_{0};
    std::atomic<std::uint8_t> left_{0};  ///< that may be begun
    std::atomic<bool> doubted_{false};
};

}  // namespace railyard
