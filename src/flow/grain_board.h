// Where the units of all sources arrive, and grains that are whole wait to be taken.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/thread_role.h"
#include "fabric/op_context.h"
#include "flow/grain_ledger.h"

namespace railyard::flow {

class Side;

/// Any thread. Nothing is allocated but in open().
class GrainBoard final : public fabric::ImmediateSink {
  public:
    struct Arrived {
        std::uint32_t index = 0;
        std::uint32_t source = 0;
        std::uint64_t round = 0;
    };
    struct Counters {
        std::uint64_t grains = 0;
        std::uint64_t lost = 0;
        std::uint64_t overwritten = 0;
    };

    GrainBoard();
    /// Who sleeps until there is a grain. While no rail is open, and after the last one was closed: nullptr.
    void wake(Side* side) noexcept;

    enum class Counting : std::uint8_t { goes_on, anew };
    /// Begins anew for a source, below most_sources: what is not whole is forgotten, and what waits waits on.
    /// Counting anew is for a number that somebody else has from here on. Throws std::bad_alloc, with nothing
    /// changed.
    void open(std::uint32_t source, const GrainGeometry& geometry, Counting counting = Counting::goes_on);
    void on_immediate(std::uint32_t data) noexcept override;
    /// The same for units that were told of by a message.
    void take(std::uint32_t source, const UnitName& first, std::uint32_t count) noexcept;

    /// The one that has been whole for longest; nothing where there is none. Who has said before that it
    /// sleeps misses none: what comes later rings.
    [[nodiscard]] std::optional<Arrived> pop() noexcept;
    [[nodiscard]] bool empty() const noexcept { return waiting_.load(std::memory_order_acquire) == 0; }
    [[nodiscard]] Counters counters(std::uint32_t source) const noexcept;

  private:
    /// A grain of a source in the list of those that wait.
    struct Entry {
        Entry* previous = nullptr;
        Entry* next = nullptr;
        Arrived grain;
    };
    struct Source {
        std::unique_ptr<GrainLedger> ledger;
        std::vector<Entry> entries;  ///< by grain index, of every opening
        Counters counters;           ///< `lost`: of ledgers before this one
    };

    bool take_one(Source& source, const UnitName& name) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    void put(Source& source, Entry& entry) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    static void move(Entry& from, Entry& to) noexcept;
    void remove(Entry& entry) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// Somebody is to be woken once the turn is over.
    [[nodiscard]] Side* sleepers() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);

    /// Nearly always of the one thread that looks, which then needs no locked instruction for it.
    mutable ThreadRole turn_;
    std::array<Source, most_sources> sources_ ABSL_GUARDED_BY(turn_);
    Entry list_ ABSL_GUARDED_BY(turn_);    ///< a ring, with this as its head
    std::atomic<std::size_t> waiting_{0};  ///< written with turn_ only
    std::atomic<Side*> side_{nullptr};
};

}  // namespace railyard::flow
