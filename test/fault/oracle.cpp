#include "oracle.h"

#include <algorithm>
#include <cstring>

namespace railyard::fault {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::vector<std::uint8_t> data_of(const TransferSpec& spec, std::size_t piece, int round) {
    std::vector<std::uint8_t> bytes(spec.sizes[piece]);
    fill_pattern(bytes, data_key(spec.id, piece, round));
    return bytes;
}

/// Offset of the first byte that differs; the size where none does.
std::size_t first_difference(Bytes a, Bytes b) noexcept {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::size_t count_differences(Bytes a, Bytes b) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        count += a[i] != b[i];
    return count;
}

bool equal(Bytes a, Bytes b) noexcept {
    return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// What memory holds that may be changing: a write under way, or late by the rules
/// (late_emulated_writes_allowed), races with whoever looks at its target, which is no error of anybody's and
/// nothing for ThreadSanitizer.
[[gnu::noinline, gnu::no_sanitize("thread")]] std::vector<std::uint8_t> snapshot(Bytes changing) {
    std::vector<std::uint8_t> seen(changing.size());
    for (std::size_t i = 0; i < changing.size(); ++i)
        seen[i] = static_cast<const volatile std::uint8_t&>(changing[i]);
    return seen;
}

std::string where(Bytes got, Bytes wanted) {
    return std::to_string(count_differences(got, wanted)) + " of " + std::to_string(got.size()) +
           " bytes, the first at " + std::to_string(first_difference(got, wanted));
}

}  // namespace

Oracle::Oracle(const Schedule& schedule, Counts& counts)
    : schedule_(schedule), counts_(counts), windows_(schedule), slots_(schedule.engines.size()) {
    for (const TransferSpec& spec : schedule.transfers) {
        rounds_[spec.id].spec = &spec;
        source_slot(spec).place(spec, false);
        target_slot(spec).place(spec, true);
    }
    std::uint64_t key = schedule.seed << 8;
    for (auto& of_engine : slots_) {
        for (Slot& slot : of_engine)
            slot.allocate(++key);
    }
    const auto& engines = schedule.engines;
    for (int i = 0; i < static_cast<int>(engines.size()); ++i) {
        const EngineSpec& engine = engines[static_cast<std::size_t>(i)];
        if (engine.xfer_timeout_ms) windows_.open({Fault::timeout, i});
        for (int other = 0; other < i; ++other) {
            if (engines[static_cast<std::size_t>(other)].secret != engine.secret)
                windows_.open({Fault::secret, i, -1, other});
        }
    }
}

Concern Oracle::concern_of(const Round& round) const {
    return {round.spec->from, round.spec->to, round.spec->region,
            round.prepared,   round.begun,    round.in_flight ? now_ : round.ended};
}

Concern Oracle::concern_of(const Message& message) const {
    return {message.from, message.to, -1, message.sent, message.sent, now_};
}

std::string Oracle::describe(const Round& round) const {
    return "transfer " + std::to_string(round.spec->id) + (round.spec->read ? " (READ, " : " (WRITE, ") +
           std::to_string(round.spec->from) + " to " + std::to_string(round.spec->to) + ", round " +
           std::to_string(round.number) + ")";
}

void Oracle::prepared(int id) {
    const std::lock_guard lock(mutex_);
    round_of(id).prepared = ++now_;
}

std::string Oracle::begin_round(int id) {
    const std::lock_guard lock(mutex_);
    Round& round = round_of(id);
    const TransferSpec& spec = *round.spec;
    require_frozen(round);
    round.frozen = nullptr;
    ++round.number;
    Slot& source = source_slot(spec);
    for (const Range* range : source.ranges_of(id, false)) {
        fill_pattern(source.of(*range), data_key(id, range->piece, round.number));
        std::ranges::copy(source.of(*range), source.expected_of(*range).begin());
    }
    Slot& target = target_slot(spec);
    if (round.open) {  // of an earlier round that failed: what is there now is the old data of this one
        for (const Range* range : target.ranges_of(id, true))
            std::ranges::copy(target.of(*range), target.expected_of(*range).begin());
    }
    round.open = round.in_flight = true;
    round.begun = ++now_;
    if (windows_.any(concern_of(round), &Rule::nothing_passes))
        throw Failure(Wrong::error, describe(round) + " was prepared between engines that are no peers");
    ++counts_.transfers;
    round.message.clear();
    if (spec.notification < 0) return {};
    Message message{spec.from, spec.to, id, round.number, 0, now_};
    round.message = message_name(message, id);
    const std::string text = message_text(round.message, static_cast<std::size_t>(spec.notification));
    message.length = text.size();
    messages_[round.message] = message;
    return text;
}

/// Nobody but the watch of xfer_timeout_ms ends a transfer so.
bool Oracle::timed_out(const Round& round, Status status, std::chrono::milliseconds taken) const {
    if (status != Status::canceled) return false;
    const int limit = schedule_.engines[static_cast<std::size_t>(round.spec->from)].xfer_timeout_ms;
    if (limit && taken.count() >= limit) return true;
    throw Failure(Wrong::error, describe(round) + " was canceled after " + std::to_string(taken.count()) +
                                    " ms, and xfer_timeout_ms is " + std::to_string(limit));
}

void Oracle::end_round(int id, Status status, std::chrono::milliseconds taken) {
    const std::lock_guard lock(mutex_);
    Round& round = round_of(id);
    ++counts_.ends[static_cast<std::size_t>(status)];
    round.ended = ++now_;
    round.in_flight = false;
    if (status == Status::ok) {
        require_data(round, "SUCCESS");
        Slot& target = target_slot(*round.spec);
        for (const Range* range : target.ranges_of(id, true)) {
            std::ranges::copy(target.of(*range), target.expected_of(*range).begin());
            counts_.bytes += range->length;
        }
        round.open = false;
        round.frozen = nullptr;
        if (!round.message.empty()) messages_.at(round.message).due = true;
        return;
    }
    Concern concern = concern_of(round);
    concern.timed_out = timed_out(round, status, taken);
    // In a later round they would be neither the old nor the new bytes.
    round.spent = !round.spec->read && writes_are_emulated() &&
                  windows_.any(concern, &Rule::late_emulated_writes_allowed);
    require_old_or_new(round, "its error");
    if (concern.timed_out) ++counts_.faults[static_cast<std::size_t>(Fault::timeout)];
    require_explained(concern, status, describe(round));
    if (!round.spent) freeze(round, "its error was reported");
}

void Oracle::require_explained(const Concern& concern, Status status, const std::string& what) {
    if (windows_.explain_error(concern)) return;
    throw Failure(Wrong::error,
                  what + " ended with \"" + railyard::to_string(status) + "\", which no fault explains");
}

void Oracle::refused(int id, Status status, const std::string& text) {
    const std::lock_guard lock(mutex_);
    Round& round = round_of(id);
    ++now_;
    // Whatever began before now and is not over: there is no handle yet.
    require_explained({round.spec->from, round.spec->to, round.spec->region, now_, now_, now_}, status,
                      describe(round) + ", when it was prepared (" + text + "),");
}

bool Oracle::spent(int id) {
    const std::lock_guard lock(mutex_);
    return round_of(id).spent;
}

void Oracle::released(int id, bool in_flight) {
    const std::lock_guard lock(mutex_);
    if (!in_flight) return;
    Round& round = round_of(id);
    round.spent = true;
    round.in_flight = false;
    round.ended = ++now_;
    windows_.open({Fault::release, round.spec->from, -1, -1, now_, now_});
    ++counts_.faults[static_cast<std::size_t>(Fault::release)];
    if (round.spec->read || !writes_are_emulated()) freeze(round, "its handle was released");
}

/// A target of an emulated WRITE has bytes in its receive buffers that nobody can take back; it places them
/// when it is driven.
bool Oracle::writes_are_emulated() const {
    return schedule_.provider == "efa" && schedule_.machine == "p4d.24xl";
}

void Oracle::require_data(const Round& round, const char* when) {
    Slot& target = target_slot(*round.spec);
    for (const Range* range : target.ranges_of(round.spec->id, true)) {
        const auto wanted = data_of(*round.spec, range->piece, round.number);
        if (equal(target.of(*range), wanted)) continue;
        throw Failure(Wrong::bytes, describe(round) + ", at " + when + ": piece " +
                                        std::to_string(range->piece) + " is wrong in " +
                                        where(target.of(*range), wanted));
    }
}

void Oracle::require_old_or_new(const Round& round, const char* when) {
    Slot& target = target_slot(*round.spec);
    for (const Range* range : target.ranges_of(round.spec->id, true)) {
        const auto fresh = data_of(*round.spec, range->piece, round.number);
        const auto old = target.expected_of(*range);
        const bool changing = round.in_flight || round.spent;
        std::vector<std::uint8_t> seen;
        if (changing) seen = snapshot(target.of(*range));
        const Bytes now = changing ? Bytes(seen) : target.of(*range);
        if (equal(now, old) || equal(now, fresh)) continue;
        for (std::size_t i = 0; i < now.size(); ++i) {
            if (now[i] == old[i] || now[i] == fresh[i]) continue;
            throw Failure(Wrong::bytes, describe(round) + ", at " + when + ": byte " + std::to_string(i) +
                                            " of piece " + std::to_string(range->piece) +
                                            " is neither the old nor the new one");
        }
    }
}

void Oracle::freeze(Round& round, const char* why) {
    require_frozen(round);  // if it was already
    round.frozen = why;
    round.memory.clear();
    Slot& target = target_slot(*round.spec);
    for (const Range* range : target.ranges_of(round.spec->id, true)) {
        const auto now = target.of(*range);
        round.memory.insert(round.memory.end(), now.begin(), now.end());
    }
}

void Oracle::require_frozen(Round& round) {
    if (!round.frozen) return;
    Slot& target = target_slot(*round.spec);
    std::size_t at = 0;
    for (const Range* range : target.ranges_of(round.spec->id, true)) {
        const Bytes before(round.memory.data() + at, range->length);
        at += range->length;
        if (equal(target.of(*range), before)) continue;
        throw Failure(Wrong::late_write, describe(round) + ": piece " + std::to_string(range->piece) +
                                             " changed after " + round.frozen + ", in " +
                                             where(target.of(*range), before));
    }
}

void Oracle::destroyed(int engine) {
    const std::lock_guard lock(mutex_);
    ++now_;
    for (auto& [id, round] : rounds_) {
        const bool ours = round.spec->from == engine;
        if (!ours && round.spec->to != engine) continue;
        const bool late = ours && !round.spec->read && writes_are_emulated();
        if (round.open && !late && (ours || !round.spec->read)) freeze(round, "an engine was destroyed");
        if (ours && round.in_flight) {
            round.in_flight = false;
            round.ended = now_;
        }
    }
    for (auto& [name, message] : messages_) {
        // What ended with SUCCESS is with the peer already.
        if (message.to == engine || (message.from == engine && message.transfer < 0)) message.excused = true;
    }
}

void Oracle::deregistered(int engine, int slot_index) {
    const std::lock_guard lock(mutex_);
    ++now_;
    for (auto& [id, round] : rounds_) {
        const int target = round.spec->read ? round.spec->from : round.spec->to;
        if (target == engine && round.spec->region == slot_index && round.open)
            freeze(round, "its target was deregistered");
    }
}

void Oracle::check_memory() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, round] : rounds_) {
        require_frozen(round);
        if (round.open) require_old_or_new(round, "a check");
    }
    for (std::size_t engine = 0; engine < slots_.size(); ++engine) {
        for (int index = 0; index < region_slots; ++index)
            check_slot(static_cast<int>(engine), index);
    }
}

void Oracle::check_slot(int engine, int index) {
    Slot& slot = this->slot(engine, index);
    std::size_t at = 0;
    const auto require_same = [&](std::size_t end) {
        const Bytes now(slot.bytes.data() + at, end - at), wanted(slot.expected.data() + at, end - at);
        if (equal(now, wanted)) return;
        throw Failure(Wrong::guard, "engine " + std::to_string(engine) + ", region " + std::to_string(index) +
                                        ", from offset " + std::to_string(at) + ": changed in " +
                                        where(now, wanted));
    };
    for (const Range& range : slot.ranges) {
        if (!range.target || !round_of(range.transfer).open) continue;
        require_same(range.offset);
        at = range.offset + range.length;
    }
    require_same(slot.bytes.size());
}

}  // namespace railyard::fault
