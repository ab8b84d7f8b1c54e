// Notifications to a peer that leave together with their data: what it has said to them, and how many are
// under way.
#pragma once

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
};

/// The writer's side, one for each instance that is written to, and small, because each peer has one. Any
/// thread.
class EarlyWindow {
  public:
    /// Each takes an entry of the target's completion queue, whether or not it looks: those of 1023 writers
    /// together fit into one.
    static constexpr std::uint32_t most_under_way = 8;

    /// Mark of one more, which counts until its end(). Nothing: the notification has to follow its data.
    std::optional<std::uint32_t> begin() noexcept {
        std::uint32_t mark = mark_.load(std::memory_order_relaxed);
        if (mark == 0 || doubted_.load(std::memory_order_relaxed)) return std::nullopt;
        if (under_way_.fetch_add(1, std::memory_order_relaxed) >= most_under_way) {
            end();
            return std::nullopt;
        }
        while (!mark_.compare_exchange_weak(mark, EarlyMark::after(mark), std::memory_order_relaxed)) {
        }
        return mark;
    }
    void end() noexcept { under_way_.fetch_sub(1, std::memory_order_relaxed); }

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
        mark_.store(writer == 0 ? 0 : EarlyMark::of(writer, first), std::memory_order_relaxed);
    }

    /// Set for good where a write with a mark is carried out again or has failed: its mark may come twice, or
    /// late, and one that is used again after four million others must not be taken for it.
    [[nodiscard]] std::atomic<bool>& doubted() noexcept { return doubted_; }

  private:
    static constexpr std::uint16_t most_asked = 8, wanted_between = 32, answered = UINT16_MAX / 2;

    std::atomic<std::uint32_t> mark_{0};  ///< the next one; 0: we have no number yet
    std::atomic<std::uint16_t> wanted_{0};
    std::atomic<std::uint8_t> under_way_{0};
    std::atomic<bool> doubted_{false};
};

}  // namespace railyard
