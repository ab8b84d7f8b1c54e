#include "flow/grain_board.h"

#include <algorithm>
#include <utility>

#include "flow/side.h"

namespace railyard::flow {

GrainBoard::GrainBoard() {
    const LeaseGuard turn(turn_);
    list_.previous = list_.next = &list_;
}

void GrainBoard::wake(Side* side) noexcept {
    side_.store(side, std::memory_order_release);
}

/// Who goes to sleep says so, and then takes a turn to look at the list: either we see that here, or what was
/// put there before is seen.
Side* GrainBoard::sleepers() const noexcept {
    Side* const side = side_.load(std::memory_order_acquire);
    return side && side->has_sleepers() ? side : nullptr;
}

void GrainBoard::open(std::uint32_t source, const GrainGeometry& geometry, Counting counting) {
    auto ledger = std::make_unique<GrainLedger>(geometry);
    std::vector<Entry> entries(geometry.grains());
    for (std::uint32_t i = 0; i < geometry.grains(); ++i)
        entries[i].grain = {i, source, 0};
    const LeaseGuard turn(turn_);
    Source& kept = sources_[source];
    if (kept.entries.size() < entries.size()) {
        for (std::size_t i = 0; i < kept.entries.size(); ++i)
            move(kept.entries[i], entries[i]);
        kept.entries = std::move(entries);
    }
    if (counting == Counting::anew) {
        kept.counters = {};
    } else if (kept.ledger) {
        kept.counters.lost += kept.ledger->lost();
    }
    kept.ledger = std::move(ledger);
}

/// With its place in the list, if it has one.
void GrainBoard::move(Entry& from, Entry& to) noexcept {
    to = from;
    if (to.next) to.previous->next = to.next->previous = &to;
}

void GrainBoard::on_immediate(std::uint32_t data) noexcept {
    Side* asleep = nullptr;
    {
        const LeaseGuard turn(turn_);
        Source& source = sources_[NameBits::source_of(data)];
        if (!source.ledger || !take_one(source, source.ledger->geometry().bits().unpack(data))) return;
        asleep = sleepers();
    }
    if (asleep) asleep->ring();
}

void GrainBoard::take(std::uint32_t source, const UnitName& first, std::uint32_t count) noexcept {
    Side* asleep = nullptr;
    {
        const LeaseGuard turn(turn_);
        Source& from = sources_[source];
        if (!from.ledger) return;
        const std::uint32_t end = first.unit + std::min(count, most_units);
        bool whole = false;
        for (UnitName name = first; name.unit < end; ++name.unit)
            whole = take_one(from, name) || whole;
        if (whole) asleep = sleepers();
    }
    if (asleep) asleep->ring();
}

bool GrainBoard::take_one(Source& source, const UnitName& name) noexcept {
    if (!source.ledger->take(name)) return false;
    Entry& entry = source.entries[name.index];
    entry.grain.round = source.ledger->round(name.index);
    put(source, entry);
    return true;
}

void GrainBoard::put(Source& source, Entry& entry) noexcept {
    ++source.counters.grains;
    if (entry.next) {
        ++source.counters.overwritten;
        remove(entry);
    }
    entry.previous = list_.previous;
    entry.next = &list_;
    list_.previous->next = &entry;
    list_.previous = &entry;
    waiting_.store(waiting_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void GrainBoard::remove(Entry& entry) noexcept {
    entry.previous->next = entry.next;
    entry.next->previous = entry.previous;
    entry.previous = entry.next = nullptr;
    waiting_.store(waiting_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

std::optional<GrainBoard::Arrived> GrainBoard::pop() noexcept {
    const LeaseGuard turn(turn_);
    if (list_.next == &list_) return std::nullopt;
    Entry& entry = *list_.next;
    remove(entry);
    return entry.grain;
}

GrainBoard::Counters GrainBoard::counters(std::uint32_t source) const noexcept {
    const LeaseGuard turn(turn_);
    const Source& asked = sources_[source];
    Counters counters = asked.counters;
    if (asked.ledger) counters.lost += asked.ledger->lost();
    return counters;
}

}  // namespace railyard::flow
