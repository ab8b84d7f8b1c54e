#include "engine/early_notices.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "engine/early_window.h"

namespace railyard {

std::uint32_t EarlyNotices::number(std::uint64_t instance, const std::string& agent) {
    if (instance == 0) return 0;
    const auto find = [&](std::uint64_t wanted) {
        return std::find_if(writers_.begin(), writers_.end(),
                            [&](const Writer& writer) { return writer.instance == wanted; });
    };
    auto place = find(instance);
    if (place != writers_.end()) return static_cast<std::uint32_t>(place - writers_.begin()) + 1;
    place = find(0);
    if (place == writers_.end()) {
        if (writers_.size() == EarlyMark::most_writers) return 0;
        place = writers_.insert(place, Writer{});
    }
    place->agent = agent;
    place->instance = instance;
    return static_cast<std::uint32_t>(place - writers_.begin()) + 1;
}

std::vector<std::uint64_t> EarlyNotices::instances() const {
    std::vector<std::uint64_t> result;
    for (const Writer& writer : writers_)
        result.push_back(writer.instance);
    return result;
}

std::vector<EarlyNotices::Notice> EarlyNotices::retire(std::span<const std::uint64_t> gone) {
    std::vector<Notice> left;
    const auto is_gone = [&](std::uint32_t mark) {
        return std::find(gone.begin(), gone.end(), instance_of(mark)) != gone.end();
    };
    for (auto entry = notices_.begin(); entry != notices_.end();) {
        if (is_gone(entry->first)) {
            left.push_back(std::move(entry->second));
            entry = notices_.erase(entry);
        } else {
            ++entry;
        }
    }
    std::erase_if(marks_, is_gone);
    std::erase_if(replaced_, [&](const auto& entry) { return is_gone(entry.first); });
    for (Writer& writer : writers_) {
        if (std::find(gone.begin(), gone.end(), writer.instance) == gone.end()) continue;
        if (writer.matched >= owed_from(writer)) --owing_;
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
    // None leads back to itself.
    if (replaced_.contains(mark) || replaced_.contains(next) || notices_.contains(next) ||
        marks_.contains(next))
        throw Error(Status::mismatch, "marks that are in use");
    if (marks_.contains(mark)) return true;
    const auto waits = notices_.find(mark);
    if (taken && waits == notices_.end()) return true;
    if (writer->replaced == most_unmatched) throw Error(Status::backend, "too many marks were replaced");
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
        if (writer.instance == 0 || writer.matched < owed_from(writer)) continue;
        credits.push_back({writer.agent, writer.instance, writer.matched});
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
    if (++writer.matched == owed_from(writer)) ++owing_;
}

std::uint32_t EarlyNotices::owed_from(const Writer& writer) const noexcept {
    return EarlyMark::window_of(static_cast<std::uint32_t>(&writer - writers_.data()) + 1) / 2;
}

}  // namespace railyard
