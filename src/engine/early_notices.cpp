#include "engine/early_notices.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "engine/early_window.h"

namespace railyard {

EarlyNotices::Number EarlyNotices::number(std::uint64_t instance, const std::string& agent) {
    if (instance == 0) return {};
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
    const auto favoured = std::count_if(writers_.begin(), writers_.end(), [](const Writer& writer) {
        return writer.window == EarlyMark::favoured_window && !writer.closed;
    });
    Writer fresh;
    fresh.instance = instance;
    fresh.agent = agent;
    fresh.window =
        favoured < EarlyMark::favoured_writers ? EarlyMark::favoured_window : EarlyMark::narrow_window;
    if (writers_.size() < EarlyMark::most_writers)
        return number_of(writers_.insert(writers_.end(), std::move(fresh)));
    const auto free = find(0);
    if (free == writers_.end()) return {};
    *free = std::move(fresh);
    return number_of(free);
}

std::vector<std::uint64_t> EarlyNotices::instances() const {
    std::vector<std::uint64_t> result;
    for (const Writer& writer : writers_)
        result.push_back(writer.instance);
    return result;
}

std::vector<EarlyNotices::Notice> EarlyNotices::retire(std::span<const std::uint64_t> gone) {
    return forget([&](std::uint32_t number) {
        return std::find(gone.begin(), gone.end(), writers_[number - 1].instance) != gone.end();
    });
}

void EarlyNotices::close(std::uint64_t instance, std::uint32_t number) {
    if (instance == 0 || instance_of(EarlyMark::of(number, 0)) != instance) return;
    Writer& writer = writers_[number - 1];
    if (!writer.closed) writer.closed = ++closed_;
}

std::vector<EarlyNotices::Notice> EarlyNotices::free_closed() {
    std::uint32_t first = 0;
    for (std::uint32_t number = 1; number <= writers_.size(); ++number) {
        const std::uint64_t closed = writers_[number - 1].closed;
        if (closed && (first == 0 || closed < writers_[first - 1].closed)) first = number;
    }
    return forget([&](std::uint32_t number) { return number == first; });
}

/// What there is of such numbers, which are free then.
template <class IsGone>
std::vector<EarlyNotices::Notice> EarlyNotices::forget(const IsGone& is_gone) {
    std::vector<Notice> left;
    const auto of_gone = [&](std::uint32_t mark) { return is_gone(EarlyMark::writer_of(mark)); };
    for (auto entry = notices_.begin(); entry != notices_.end();) {
        if (of_gone(entry->first)) {
            left.push_back(std::move(entry->second));
            entry = notices_.erase(entry);
        } else {
            ++entry;
        }
    }
    std::erase_if(marks_, of_gone);
    std::erase_if(replaced_, [&](const auto& entry) { return of_gone(entry.first); });
    for (std::uint32_t number = 1; number <= writers_.size(); ++number) {
        Writer& writer = writers_[number - 1];
        if (!is_gone(number)) continue;
        if (writer.instance != 0 && writer.matched >= writer.window / 2u) --owing_;
        writer = {};
    }
    return left;
}

std::uint64_t EarlyNotices::instance_of(std::uint32_t mark) const noexcept {
    const std::uint32_t number = EarlyMark::writer_of(mark);
    return number != 0 && number <= writers_.size() ? writers_[number - 1].instance : 0;
}

EarlyNotices::Writer* EarlyNotices::writer_of(std::uint32_t mark) noexcept {
    return instance_of(mark) != 0 ? &writers_[EarlyMark::writer_of(mark) - 1] : nullptr;
}

std::optional<EarlyNotices::Notice> EarlyNotices::placed(std::uint32_t mark) {
    Writer* const writer = writer_of(mark);
    if (!writer || replaced_.contains(mark)) return std::nullopt;
    const auto waits = notices_.find(mark);
    if (waits != notices_.end()) {
        std::optional<Notice> notice(std::move(waits->second));
        notices_.erase(waits);
        --writer->notices;
        count_match(*writer);
        return notice;
    }
    if (writer->marks < most_unmatched && marks_.insert(mark).second) ++writer->marks;
    return std::nullopt;
}

bool EarlyNotices::is_placed(std::uint32_t mark) {
    if (marks_.erase(latest(mark)) == 0) return false;
    Writer& writer = *writer_of(mark);
    --writer.marks;
    count_match(writer);
    return true;
}

bool EarlyNotices::keep(std::uint32_t mark, Notice notice) {
    Writer* const writer = writer_of(mark);
    if (!writer || writer->notices == most_unmatched) return false;
    if (!notices_.emplace(latest(mark), std::move(notice)).second) return false;
    ++writer->notices;
    return true;
}

bool EarlyNotices::is_in_place(std::uint32_t mark, std::uint32_t next, bool taken) {
    Writer* const writer = writer_of(mark);
    if (!writer || mark == next || EarlyMark::writer_of(next) != EarlyMark::writer_of(mark))
        throw Error(Status::mismatch, "marks that are not of one writer");
    const auto before = replaced_.find(mark);
    if (before != replaced_.end() && before->second == next) return false;  // asked again
    // None leads back to itself.
    if (before != replaced_.end() || replaced_.contains(next) || notices_.contains(next) ||
        marks_.contains(next))
        throw Error(Status::mismatch, "marks that are in use");
    if (marks_.contains(mark)) return true;
    const auto waits = notices_.find(mark);
    if (taken && waits == notices_.end()) return true;
    if (writer->replaced == most_unmatched) throw Error(Status::mismatch, "too many marks were replaced");
    replaced_.emplace(mark, next);
    ++writer->replaced;
    if (waits == notices_.end()) return false;
    auto notice = notices_.extract(waits);
    notice.key() = next;
    notices_.insert(std::move(notice));
    return false;
}

std::vector<EarlyNotices::Credit> EarlyNotices::take_credits() {
    std::vector<Credit> credits;
    if (owing_ == 0) return credits;
    for (Writer& writer : writers_) {
        if (writer.instance == 0 || writer.matched < writer.window / 2u) continue;
        const auto number = static_cast<std::uint32_t>(&writer - writers_.data()) + 1;
        credits.push_back({writer.agent, writer.instance, number, writer.matched});
        writer.matched = 0;
        --owing_;
    }
    return credits;
}

std::uint32_t EarlyNotices::latest(std::uint32_t mark) const noexcept {
    for (auto next = replaced_.find(mark); next != replaced_.end(); next = replaced_.find(mark))
        mark = next->second;
    return mark;
}

void EarlyNotices::count_match(Writer& writer) noexcept {
    if (++writer.matched == writer.window / 2u) ++owing_;
}

}  // namespace railyard
