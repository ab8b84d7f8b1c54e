#include "engine/early_notices.h"

#include <algorithm>
#include <utility>

#include "engine/early_window.h"

namespace railyard {

std::uint32_t EarlyNotices::number(std::uint64_t instance) {
    if (instance == 0) return 0;
    const auto find = [&](std::uint64_t wanted) {
        return std::find_if(writers_.begin(), writers_.end(),
                            [&](const Writer& writer) { return writer.instance == wanted; });
    };
    auto place = find(instance);
    if (place == writers_.end()) place = find(0);
    if (place == writers_.end()) {
        if (writers_.size() == EarlyMark::most_writers) return 0;
        place = writers_.insert(place, Writer{});
    }
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
    for (Writer& writer : writers_) {
        if (std::find(gone.begin(), gone.end(), writer.instance) != gone.end()) writer = {};
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
    if (!writer) return std::nullopt;
    const auto waits = notices_.find(mark);
    if (waits != notices_.end()) {
        std::optional<Notice> notice(std::move(waits->second));
        notices_.erase(waits);
        --writer->notices;
        return notice;
    }
    if (writer->marks < most_unmatched && marks_.insert(mark).second) ++writer->marks;
    return std::nullopt;
}

bool EarlyNotices::is_placed(std::uint32_t mark) {
    if (marks_.erase(mark) == 0) return false;
    --writer_of(mark)->marks;
    return true;
}

bool EarlyNotices::keep(std::uint32_t mark, Notice notice) {
    Writer* const writer = writer_of(mark);
    if (!writer || writer->notices == most_unmatched) return false;
    if (!notices_.emplace(mark, std::move(notice)).second) return false;
    ++writer->notices;
    return true;
}

}  // namespace railyard
