// What an inbox must make of the fragments of control messages, too simple to be wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/message_auth.h"
#include "engine/notification.h"
#include "targets.h"

namespace railyard::fuzz {

/// The instance that the inbox belongs to.
constexpr std::uint64_t us = 5;

/// What must come of fragments, byte for byte.
class InboxModel {
  public:
    explicit InboxModel(const MessageAuth& auth) : auth_(auth) {}
    void fragment(std::string_view bytes) {
        if (auth_.on()) {
            if (bytes.size() < 32) return;
            const std::string_view tag = bytes.substr(bytes.size() - 32);
            bytes.remove_suffix(32);
            const MessageAuth::Tag right = auth_.tag(MessageAuth::Use::fragment, bytes);
            if (!std::equal(right.begin(), right.end(), tag.begin(),
                            [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); }))
                return;
        }
        Feed feed(bytes);
        if (bytes.size() < 39 || feed.take(2) != "YR") return;
        const bool known = feed.number<std::uint8_t>() == control_version;
        const auto kind = feed.number<std::uint8_t>();
        if (feed.number<std::uint8_t>() != (auth_.on() ? 1 : 0)) return;
        const auto nonce = feed.number<std::uint64_t>(), receiver = feed.number<std::uint64_t>();
        const auto id = feed.number<std::uint64_t>();
        if (receiver != us) return;
        const auto total = feed.number<std::uint32_t>(), offset = feed.number<std::uint32_t>();
        const auto name_size = feed.number<std::uint16_t>();
        if (!known || kind < 1 || kind > 19 || name_size < 1 || name_size > 1024) return;
        const std::string name(feed.take(name_size));
        const bool waits = kind == early || kind == early_several;
        const std::size_t size_of_marks = kind == early_several ? 5 : kind == early ? 4 : 0;
        Feed marks(feed.take(size_of_marks));
        const bool cut_short = marks.size() != size_of_marks;
        const auto mark = marks.number<std::uint32_t>();
        const std::uint8_t operations = kind == early_several ? marks.number<std::uint8_t>() : 1;
        const std::string payload(feed.rest());
        const std::uint32_t most = kind == 1 || waits ? 16u << 20 : 1u << 20;
        if (cut_short || name.size() != name_size || total > most || offset > total) return;
        if (payload.size() > total - offset || (payload.empty() && total != 0)) return;
        if (waits && (!writer_of(mark) || writer_of(mark)->nonce != nonce)) return;
        // A PING, the answer to an eager WRITE or READ, or what has come before.
        if (kind == 6 || kind == 8 || kind == 10 || delivered_.contains({nonce, id})) return;
        if (payload.size() == total) return deliver({kind, name, payload, mark, operations, {}}, {nonce, id});
        Unfinished& message =
            unfinished_.try_emplace({nonce, id}, Unfinished{kind, name, total, mark, operations, {}})
                .first->second;
        if (message.kind != kind || message.name != name || message.total != total || message.mark != mark ||
            message.operations != operations)
            return;
        for (std::uint32_t i = 0; i < payload.size(); ++i)
            if (message.bytes.contains(offset + i)) return;
        for (std::uint32_t i = 0; i < payload.size(); ++i)
            message.bytes[offset + i] = payload[i];
        if (message.bytes.size() != total) return;
        std::string text;
        for (const auto& [at, byte] : message.bytes)
            text += byte;
        unfinished_.erase({nonce, id});
        deliver({kind, name, text, mark, operations, {}}, {nonce, id});
    }
    std::uint32_t number(std::uint64_t nonce) {
        if (nonce == 0) return 0;
        for (std::uint32_t i = 0; i < writers_.size(); ++i)
            if (writers_[i].nonce == nonce) return i + 1;
        writers_.push_back({nonce, {}, {}, {}});
        return static_cast<std::uint32_t>(writers_.size());
    }
    void immediate(std::uint32_t mark) {
        Writer* const writer = writer_of(mark);
        if (!writer || writer->replaced.contains(mark)) return;
        for (std::size_t i = 0; i < writer->waiting.size(); ++i) {
            Whole& notice = writer->waiting[i];
            if (std::erase_if(notice.missing, [&](auto of) { return writer->latest(of) == mark; }) == 0)
                continue;
            if (!notice.missing.empty()) return;
            notifications.push_back(notice);
            writer->waiting.erase(writer->waiting.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
        if (std::find(writer->marks.begin(), writer->marks.end(), mark) == writer->marks.end())
            writer->marks.push_back(mark);
    }
    /// Nothing: refused.
    std::optional<bool> is_in_place(std::uint64_t nonce, std::uint32_t mark, std::uint32_t next,
                                    std::uint64_t id) {
        Writer* const writer = writer_of(mark);
        if (!writer || writer->nonce != nonce || mark == next || writer_of(next) != writer)
            return std::nullopt;
        const auto knows = [](const std::vector<std::uint32_t>& marks, std::uint32_t wanted) {
            return std::find(marks.begin(), marks.end(), wanted) != marks.end();
        };
        bool waits = false;
        for (const Whole& notice : writer->waiting) {
            for (const std::uint32_t of : notice.missing)
                waits = waits || writer->latest(of) == mark;
        }
        const auto from = delivered_.lower_bound({nonce, 0});
        if (from == delivered_.end() || from->first != nonce) return std::nullopt;
        const auto before = writer->replaced.find(mark);
        if (before != writer->replaced.end() && before->second == next) return false;
        if (before != writer->replaced.end() || writer->replaced.contains(next) ||
            knows(writer->marks, next) || writer->replaces(next) || writer->has_notice_with(next, 1))
            return std::nullopt;
        if (knows(writer->marks, mark)) return true;
        if (delivered_.contains({nonce, id}) && !waits) return true;
        writer->replaced[mark] = next;
        return false;
    }
    struct Whole {
        std::uint8_t kind = 0;
        std::string name, text;
        std::uint32_t mark = 0;
        std::uint8_t operations = 1;
        std::set<std::uint32_t> missing;  ///< the marks that they had at first
    };
    std::vector<Whole> notifications, letters;
    static constexpr std::uint8_t early = 13, early_several = 19;

  private:
    struct Unfinished {
        std::uint8_t kind = 0;
        std::string name;
        std::uint32_t total = 0, mark = 0;
        std::uint8_t operations = 1;
        std::map<std::uint32_t, char> bytes;
    };
    struct Writer {
        std::uint64_t nonce;
        std::vector<std::uint32_t> marks;
        std::vector<Whole> waiting;
        std::map<std::uint32_t, std::uint32_t> replaced;

        std::uint32_t latest(std::uint32_t mark) {
            while (replaced.contains(mark))
                mark = replaced[mark];
            return mark;
        }
        [[nodiscard]] bool replaces(std::uint32_t mark) const {
            return std::any_of(replaced.begin(), replaced.end(),
                               [&](const auto& pair) { return pair.second == mark; });
        }
        [[nodiscard]] bool has_notice_with(std::uint32_t first, std::uint32_t count) const {
            return std::any_of(waiting.begin(), waiting.end(), [&](const Whole& one) {
                return one.mark < first + count && first < one.mark + one.operations;
            });
        }
    };
    Writer* writer_of(std::uint32_t mark) {
        const std::uint32_t number = mark >> 22;
        return number != 0 && number <= writers_.size() ? &writers_[number - 1] : nullptr;
    }
    void deliver(Whole whole, std::pair<std::uint64_t, std::uint64_t> id) {
        if (whole.kind == early || whole.kind == early_several) {
            Writer& writer = *writer_of(whole.mark);
            const std::uint32_t end = whole.mark + whole.operations;
            if (whole.operations == 0 || whole.operations > 64 || (end - 1) >> 22 != whole.mark >> 22) return;
            if (writer.has_notice_with(whole.mark, whole.operations)) return;
            for (std::uint32_t mark = whole.mark; mark != end; ++mark)
                if (writer.replaces(mark)) return;
            for (std::uint32_t mark = whole.mark; mark != end; ++mark)
                if (std::erase(writer.marks, writer.latest(mark)) == 0) whole.missing.insert(mark);
            (whole.missing.empty() ? notifications : writer.waiting).push_back(whole);
        } else {
            (whole.kind == 1 ? notifications : letters).push_back(whole);
        }
        delivered_.insert(id);
    }
    const MessageAuth& auth_;
    std::vector<Writer> writers_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Unfinished> unfinished_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> delivered_;
};

}  // namespace railyard::fuzz
