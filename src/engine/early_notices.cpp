#include "engine/early_notices.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "common/status.h"

namespace railyard {
namespace {

constexpr std::uint64_t bit_of(std::uint32_t operation) noexcept {
    return std::uint64_t{1} << operation;
}

static_assert(EarlyMark::most_operations <= 64);

/// Room is made for so many at once.
constexpr std::size_t writers_a_step = 16;

/// Of a quarter of a second, so that a small number has room for them.
constexpr std::uint32_t ticks(std::uint64_t ns) noexcept {
    return static_cast<std::uint32_t>(ns >> 28);
}

}  // namespace

EarlyNotices::Number EarlyNotices::number(std::uint64_t instance) {
    const auto cut_off = [&](const Writer& writer) {
        return writer.instance == instance && writer.window == 0;
    };
    if (instance == 0 || std::any_of(writers_.begin(), writers_.end(), cut_off)) return {};
    const auto find = [&](std::uint64_t wanted) {
        return std::find_if(writers_.begin(), writers_.end(), [&](const Writer& writer) {
            return writer.instance == wanted && !writer.closed;
        });
    };
    const auto number_of = [&](std::vector<Writer>::const_iterator writer) {
        return Number{static_cast<std::uint32_t>(writer - writers_.begin()) + 1, writer->window};
    };
    const auto known = find(instance);
    if (known != writers_.end()) return number_of(known);
    Writer fresh;
    fresh.instance = instance;
    fresh.window = next_window();
    if (fresh.window == 0) return {};
    if (writers_.size() < EarlyMark::most_writers) {
        if (writers_.size() == writers_.capacity()) writers_.reserve(writers_.size() + writers_a_step);
        return number_of(writers_.insert(writers_.end(), fresh));
    }
    const auto free = find(0);
    if (free == writers_.end()) return {};
    *free = fresh;
    return number_of(free);
}

std::uint8_t EarlyNotices::next_window() const noexcept {
    std::uint32_t favoured = 0, room = EarlyMark::most_unread;
    for (const Writer& writer : writers_) {
        if (!writer.closed && writer.window == EarlyMark::favoured_window) ++favoured;
        if (!writer.closed || writer.lost) room -= std::min<std::uint32_t>(room, writer.window);
    }
    for (const std::uint8_t window : {EarlyMark::favoured_window, EarlyMark::narrow_window}) {
        const bool may = window != EarlyMark::favoured_window || favoured < EarlyMark::favoured_writers;
        if (may && window <= room) return window;
    }
    return 0;
}

std::vector<std::uint64_t> EarlyNotices::instances() const {
    std::vector<std::uint64_t> result;
    for (const Writer& writer : writers_) {
        if (!writer.closed && writer.instance != 0) result.push_back(writer.instance);
    }
    std::sort(result.begin(), result.end());
    return result;
}

void EarlyNotices::close_lost(std::span<const std::uint64_t> lost, std::uint64_t now_ns) noexcept {
    for (Writer& writer : writers_) {
        if (writer.lost && ticks(now_ns) > writer.closed + ticks(longest_rest_ns))
            writer.window = std::min(writer.window, EarlyMark::narrow_window);
        if (writer.closed || writer.instance == 0 ||
            !std::binary_search(lost.begin(), lost.end(), writer.instance))
            continue;
        writer.closed = ticks(now_ns) + 1;
        writer.lost = true;
    }
}

void EarlyNotices::close(std::uint64_t instance, std::uint32_t number, std::uint64_t now_ns) {
    if (instance == 0 || instance_of(EarlyMark::of(number, 0)) != instance) return;
    Writer& writer = writers_[number - 1];
    if (writer.window == 0 || (writer.closed && !writer.lost)) return;
    writer.closed = ticks(now_ns) + 1;
    writer.lost = false;
}

std::vector<EarlyNotices::Notice> EarlyNotices::free_closed(std::uint64_t now_ns) {
    std::uint32_t first = 0;
    for (std::uint32_t number = 1; number <= writers_.size(); ++number) {
        const Writer& writer = writers_[number - 1];
        const std::uint64_t rest = writer.notices || writer.lost ? longest_rest_ns : rest_ns;
        if (!writer.closed || ticks(now_ns) <= writer.closed + ticks(rest)) continue;
        if (first == 0 || writer.closed < writers_[first - 1].closed) first = number;
    }
    return forget([&](std::uint32_t number) { return number == first; });
}

bool EarlyNotices::is_one_too_many(std::uint32_t mark) noexcept {
    const Writer* const writer = writer_of(mark);
    return writer && writer->marks == most_unmatched && !marks_.contains(mark) && !replaced_.contains(mark) &&
           awaiting(original(mark)) == notices_.end();
}

std::vector<EarlyNotices::Notice> EarlyNotices::cut_off(std::uint32_t mark) {
    const std::uint32_t cut = EarlyMark::writer_of(mark);
    const std::uint64_t instance = instance_of(mark);
    std::vector<Notice> left = forget([&](std::uint32_t number) { return number == cut; });
    writers_[cut - 1].instance = instance;  // so that the number is no other's
    return left;
}

/// What there is of such numbers, which are free then. Throws std::bad_alloc, with nothing done.
template <class IsGone>
std::vector<EarlyNotices::Notice> EarlyNotices::forget(const IsGone& is_gone) {
    std::size_t waiting = 0;
    for (std::uint32_t number = 1; number <= writers_.size(); ++number)
        waiting += is_gone(number) ? writers_[number - 1].notices : 0u;
    std::vector<Notice> left;
    left.reserve(waiting);
    const auto of_gone = [&](std::uint32_t mark) { return is_gone(EarlyMark::writer_of(mark)); };
    for (auto entry = notices_.begin(); entry != notices_.end();) {
        if (of_gone(entry->first)) {
            if (entry->second.wanted) left.push_back(std::move(entry->second.notice));
            entry = notices_.erase(entry);
        } else {
            ++entry;
        }
    }
    std::erase_if(marks_, of_gone);
    std::erase_if(owed_, [&](const Credit& owed) { return is_gone(owed.number); });
    for (auto* const pairs : {&replaced_, &replaces_})
        std::erase_if(*pairs, [&](const auto& entry) { return of_gone(entry.first); });
    for (std::uint32_t number = 1; number <= writers_.size(); ++number) {
        Writer& writer = writers_[number - 1];
        if (!is_gone(number)) continue;
        writer = {};
    }
    return left;
}

std::uint64_t EarlyNotices::instance_of(std::uint32_t mark) const noexcept {
    const std::uint32_t number = EarlyMark::writer_of(mark);
    return number != 0 && number <= writers_.size() ? writers_[number - 1].instance : 0;
}

EarlyNotices::Writer* EarlyNotices::writer_of(std::uint32_t mark) noexcept {
    if (instance_of(mark) == 0) return nullptr;
    Writer& writer = writers_[EarlyMark::writer_of(mark) - 1];
    return writer.window != 0 ? &writer : nullptr;
}

EarlyNotices::Writer* EarlyNotices::writer_heard(std::uint32_t mark) noexcept {
    Writer* const writer = writer_of(mark);
    if (writer && writer->lost) [[unlikely]] {
        writer->lost = false;
        writer->closed = 0;
    }
    return writer;
}

std::optional<EarlyNotices::Notice> EarlyNotices::placed(std::uint32_t mark) {
    Writer* const writer = writer_heard(mark);
    if (!writer || replaced_.contains(mark)) return std::nullopt;
    const std::uint32_t first_known_by = original(mark);
    const auto waits = awaiting(first_known_by);
    if (waits == notices_.end()) {
        if (writer->marks < most_unmatched && marks_.insert(mark).second) ++writer->marks;
        return std::nullopt;
    }
    Waiting& waiting = waits->second;
    count_matches(*writer, 1, waiting.notice.agent);
    waiting.missing &= ~bit_of(first_known_by - waits->first);
    if (waiting.missing != 0) return std::nullopt;
    std::optional<Notice> notice;
    if (waiting.wanted) notice = std::move(waiting.notice);
    notices_.erase(waits);
    --writer->notices;
    return notice;
}

EarlyNotices::Taken EarlyNotices::take(EarlyMarks marks, Notice& notice, bool wanted) {
    const auto [mark, operations] = marks;
    Writer* const writer = writer_heard(mark);
    if (!writer || !EarlyMark::are_one_range(mark, operations)) return Taken::refused;
    const auto next = notices_.lower_bound(mark);
    if (with_operation(mark) != notices_.end() || (next != notices_.end() && next->first - mark < operations))
        return Taken::refused;
    std::uint64_t missing = 0;
    for (std::uint32_t i = 0; i < operations; ++i) {
        if (replaces_.contains(mark + i)) return Taken::refused;
        if (!marks_.contains(latest(mark + i))) missing |= bit_of(i);
    }
    WaitingNotices::iterator kept;
    if (missing != 0) {
        if (writer->notices == most_unmatched) return Taken::refused;
        kept = notices_.try_emplace(next, mark);
        ++writer->notices;
    }
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < operations; ++i)
        found += static_cast<std::uint32_t>(marks_.erase(latest(mark + i)));
    writer->marks = static_cast<std::uint16_t>(writer->marks - found);
    count_matches(*writer, found, notice.agent);
    if (missing == 0) return Taken::in_place;
    if (!wanted) notice.message = {};
    kept->second = {std::move(notice), marks.operations, wanted, missing};
    return Taken::kept;
}

bool EarlyNotices::is_in_place(std::uint32_t mark, std::uint32_t next, bool taken) {
    Writer* const writer = writer_of(mark);
    if (!writer || mark == next || EarlyMark::writer_of(next) != EarlyMark::writer_of(mark))
        throw Error(Status::mismatch, "marks that are not of one writer");
    const auto before = replaced_.find(mark);
    if (before != replaced_.end() && before->second == next) return false;  // asked again
    // None leads back to itself.
    if (before != replaced_.end() || replaced_.contains(next) || replaces_.contains(next) ||
        with_operation(next) != notices_.end() || marks_.contains(next))
        throw Error(Status::mismatch, "marks that are in use");
    if (marks_.contains(mark)) return true;
    if (taken && awaiting(original(mark)) == notices_.end()) return true;
    if (writer->replaced == most_unmatched) throw Error(Status::mismatch, "too many marks were replaced");
    const auto entry = replaced_.emplace(mark, next).first;
    try {
        replaces_.emplace(next, mark);
    } catch (...) {
        replaced_.erase(entry);
        throw;
    }
    ++writer->replaced;
    return false;
}

EarlyNotices::Credits EarlyNotices::take_credits() noexcept {
    for (Credit& credit : owed_) {
        Writer& writer = writers_[credit.number - 1];
        credit.count = std::exchange(writer.matched, 0);
        writer.owed = false;
    }
    return std::exchange(owed_, {});
}

/// The number may be another's by now, or owed as well what has come since.
void EarlyNotices::give_back(Credits credits) noexcept {
    for (auto next = credits.begin(); next != credits.end();) {
        const auto credit = next++;
        Writer& writer = writers_[credit->number - 1];
        if (writer.instance != credit->instance) continue;
        writer.matched += credit->count;
        if (!writer.owed) owed_.splice(owed_.end(), credits, credit);
        writer.owed = true;
    }
}

void EarlyNotices::put_off(const Credit& credit) noexcept {
    Writer& writer = writers_[credit.number - 1];
    if (writer.instance == credit.instance) writer.matched += credit.count;
}

void EarlyNotices::owe(const std::string& agent, std::uint64_t instance) noexcept {
    for (Writer& writer : writers_) {
        if (writer.instance == instance && writer.window != 0) owe(writer, agent);
    }
}

std::uint32_t EarlyNotices::follow(const MarkPairs& pairs, std::uint32_t mark) noexcept {
    if (pairs.empty()) [[likely]]
        return mark;
    for (auto next = pairs.find(mark); next != pairs.end(); next = pairs.find(mark))
        mark = next->second;
    return mark;
}

EarlyNotices::WaitingNotices::iterator EarlyNotices::with_operation(std::uint32_t mark) noexcept {
    const auto behind = notices_.upper_bound(mark);
    if (behind == notices_.begin()) return notices_.end();
    const auto at = std::prev(behind);
    return mark - at->first < at->second.operations ? at : notices_.end();
}

EarlyNotices::WaitingNotices::iterator EarlyNotices::awaiting(std::uint32_t mark) noexcept {
    const auto at = with_operation(mark);
    return at != notices_.end() && (at->second.missing & bit_of(mark - at->first)) ? at : notices_.end();
}

void EarlyNotices::count_matches(Writer& writer, std::uint32_t marks, const std::string& agent) noexcept {
    writer.matched += marks;
    owe(writer, agent);
}

void EarlyNotices::owe(Writer& writer, const std::string& agent) noexcept {
    if (writer.owed || writer.matched < writer.window / 2u) return;
    try {
        owed_.push_back(
            {agent, writer.instance, static_cast<std::uint32_t>(&writer - writers_.data()) + 1, 0});
        writer.owed = true;
    } catch (const std::bad_alloc&) {
        // with the next one
    }
}

}  // namespace railyard
