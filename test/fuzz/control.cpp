// Sequences of control messages: several senders, honest and hostile, into one inbox, compared with a model
// that is too simple to be wrong.
#if defined(__clang__)  // g++ does not bring the header
#if __has_feature(address_sanitizer)
#include <sanitizer/allocator_interface.h>
#define RAILYARD_COUNTS_HEAP
#endif
#endif

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "common/wire.h"
#include "engine/eager_message.h"
#include "engine/introduction.h"
#include "engine/notification.h"
#include "engine/request.h"
#include "targets.h"

namespace railyard::fuzz {
namespace {

std::size_t heap_in_use() {
#ifdef RAILYARD_COUNTS_HEAP
    return __sanitizer_get_current_allocated_bytes();
#else
    return 0;
#endif
}

std::span<const std::byte> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Nothing on a machine that cannot sign.
const char* secret_text(const char* text) {
    return find_libcrypto().functions ? text : "";
}

/// The instance that the inbox belongs to.
constexpr std::uint64_t us = 5;

struct Header {
    std::uint8_t version = control_version;
    std::uint8_t kind = 1;
    std::uint8_t signature = 0;
    std::uint64_t nonce = 0;
    std::uint64_t receiver = us;
    std::uint64_t id = 0;
    std::uint32_t total = 0;
    std::uint32_t offset = 0;
    std::string name;
};

/// Signed where there is a secret, whatever the header says about it.
std::string fragment_of(const Header& header, std::string_view payload, const MessageAuth& auth) {
    std::string bytes = "YR";
    WireWriter writer(bytes);
    writer.number(header.version);
    writer.number(header.kind);
    writer.number(header.signature);
    writer.number(header.nonce);
    writer.number(header.receiver);
    writer.number(header.id);
    writer.number(header.total);
    writer.number(header.offset);
    writer.number(static_cast<std::uint16_t>(header.name.size()));
    bytes += header.name;
    bytes += payload;
    if (!auth.on()) return bytes;
    const MessageAuth::Tag tag = auth.tag(MessageAuth::Use::fragment, bytes);
    return bytes.append(tag.begin(), tag.end());
}

/// What must come of fragments, byte for byte.
class Model {
  public:
    explicit Model(const MessageAuth& auth) : auth_(auth) {}
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
        if (!known || kind < 1 || kind > 13 || name_size < 1 || name_size > 1024) return;
        const std::string name(feed.take(name_size));
        const std::uint32_t mark = kind == early ? feed.number<std::uint32_t>() : 0;
        const std::string payload(feed.rest());
        const std::uint32_t most = kind == 1 || kind == early ? 16u << 20 : 1u << 20;
        if (name.size() != name_size || total > most || offset > total) return;
        if (payload.size() > total - offset || (payload.empty() && total != 0)) return;
        if (kind == early && (!writer_of(mark) || writer_of(mark)->nonce != nonce)) return;
        // A PING, the answer to an eager WRITE or READ, or what has come before.
        if (kind == 6 || kind == 8 || kind == 10 || delivered_.contains({nonce, id})) return;
        if (payload.size() == total) return deliver({kind, name, payload, mark}, {nonce, id});
        Unfinished& message =
            unfinished_.try_emplace({nonce, id}, Unfinished{kind, name, total, mark, {}}).first->second;
        if (message.kind != kind || message.name != name || message.total != total || message.mark != mark)
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
        deliver({kind, name, text, mark}, {nonce, id});
    }
    std::uint32_t number(std::uint64_t nonce) {
        if (nonce == 0) return 0;
        for (std::uint32_t i = 0; i < writers_.size(); ++i)
            if (writers_[i].nonce == nonce) return i + 1;
        writers_.push_back({nonce, {}, {}});
        return static_cast<std::uint32_t>(writers_.size());
    }
    void immediate(std::uint32_t mark) {
        Writer* const writer = writer_of(mark);
        if (!writer) return;
        for (std::size_t i = 0; i < writer->waiting.size(); ++i) {
            if (writer->waiting[i].mark != mark) continue;
            notifications.push_back(writer->waiting[i]);
            writer->waiting.erase(writer->waiting.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
        if (std::find(writer->marks.begin(), writer->marks.end(), mark) == writer->marks.end())
            writer->marks.push_back(mark);
    }
    struct Whole {
        std::uint8_t kind = 0;
        std::string name, text;
        std::uint32_t mark = 0;
    };
    std::vector<Whole> notifications, letters;
    static constexpr std::uint8_t early = 13;

  private:
    struct Unfinished {
        std::uint8_t kind = 0;
        std::string name;
        std::uint32_t total = 0, mark = 0;
        std::map<std::uint32_t, char> bytes;
    };
    struct Writer {
        std::uint64_t nonce;
        std::vector<std::uint32_t> marks;
        std::vector<Whole> waiting;
    };
    Writer* writer_of(std::uint32_t mark) {
        const std::uint32_t number = mark >> 22;
        return number != 0 && number <= writers_.size() ? &writers_[number - 1] : nullptr;
    }
    void deliver(const Whole& whole, std::pair<std::uint64_t, std::uint64_t> id) {
        if (whole.kind == early) {
            Writer& writer = *writer_of(whole.mark);
            const auto came = std::find(writer.marks.begin(), writer.marks.end(), whole.mark);
            if (came == writer.marks.end()) {
                for (const Whole& other : writer.waiting)
                    if (other.mark == whole.mark) return;
                writer.waiting.push_back(whole);
            } else {
                writer.marks.erase(came);
                notifications.push_back(whole);
            }
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

/// What an engine does with a letter before it looks who sent it.
void read_letter(const Letter& letter) {
    unless_refused([&] {
        switch (letter.kind) {
            case MessageKind::hello:
                return static_cast<void>(decode_introduction(letter.text)), 0;
            case MessageKind::hello_ack:
                return static_cast<void>(decode_acknowledgement(letter.text)), 0;
            case MessageKind::request:
                return static_cast<void>(decode_request(letter.text)), 0;
            case MessageKind::answer:
                return static_cast<void>(decode_answer(letter.text)), 0;
            case MessageKind::eager:
                return static_cast<void>(decode_eager(letter.text)), 0;
            case MessageKind::eager_read:
                return static_cast<void>(decode_eager_read(letter.text)), 0;
            case MessageKind::number_wanted:
            case MessageKind::number:
                return 0;
            case MessageKind::notify:
            case MessageKind::notify_early:
            case MessageKind::ping:
            case MessageKind::eager_answer:
            case MessageKind::eager_data:
                break;
        }
        require(false, "a notification is no letter");
        return 0;
    });
}

/// One inbox and, unless its limits are so tight that it may refuse what is sound, its model.
class Course {
  public:
    Course(InboxLimits limits, bool compare, const MessageAuth& with)
        : auth(with), limits_(limits), compare_(compare), inbox_(limits, us, &with), model_(with) {}

    const MessageAuth& auth;

    void fragment(const std::string& bytes) {
        call([&] { inbox_.on_control(as_bytes(bytes)); });
        if (compare_) model_.fragment(bytes);
        last_ = bytes;
        check_bounds();
    }
    void number(std::uint64_t nonce) {
        std::uint32_t number = 0;
        call([&] { number = inbox_.number(nonce); });
        require(number == model_.number(nonce), "instances are numbered in turn");
    }
    void immediate(std::uint32_t mark) {
        call([&] { inbox_.on_immediate(mark); });
        if (compare_) model_.immediate(mark);
        check_bounds();
    }
    void take_notifications() {
        call([&] {
            std::vector<Notification> got;
            inbox_.take(got);
            took_ = took_ || !got.empty();
            check(got);
        });
        model_.notifications.clear();
    }
    void take_letters() {
        call([&] {
            std::vector<Letter> got;
            inbox_.take_letters(got);
            took_ = took_ || !got.empty();
            check(got);
        });
        model_.letters.clear();
    }
    [[nodiscard]] const std::string& last() const noexcept { return last_; }
    [[nodiscard]] bool took() const noexcept { return took_; }

  private:
    void check(const std::vector<Notification>& got) const {
        for (const Notification& one : got)
            require(one.message.size() <= max_notification && !one.agent.empty(),
                    "messages keep their limits");
        if (!compare_) return;
        require(got.size() == model_.notifications.size(),
                "whole notifications, each as often as it was sent");
        for (std::size_t i = 0; i < got.size(); ++i) {
            const Model::Whole& sent = model_.notifications[i];
            require(got[i].agent == sent.name && got[i].message == sent.text,
                    "a notification is what was sent");
        }
    }
    void check(const std::vector<Letter>& got) const {
        for (const Letter& letter : got)
            read_letter(letter);
        if (!compare_) return;
        require(got.size() == std::min<std::size_t>(model_.letters.size(), 4096), "whole letters");
        for (std::size_t i = 0; i < got.size(); ++i) {
            const Model::Whole& sent = model_.letters[i];
            require(static_cast<std::uint8_t>(got[i].kind) == sent.kind && got[i].agent == sent.name &&
                        got[i].text == sent.text,
                    "a letter is what was sent");
        }
    }
    /// What an inbox does is counted, and what is done with it here is not.
    template <class Call>
    void call(Call made) {
        const std::size_t before = heap_in_use();
        made();
        heap_ += heap_in_use() - before;  // of either sign
    }
    void check_bounds() const {
        const InboxLimits held = inbox_.held();
        require(held.unfinished <= limits_.unfinished && held.notifications <= limits_.notifications &&
                    held.letters <= limits_.letters,
                "an inbox keeps its limits");
        // Strings and lists grow by doubling.
        const std::size_t counted = held.unfinished + held.notifications + held.letters;
        require(heap_ <= 2 * counted + 65'536, "what an inbox holds is what it counts");
    }

    const InboxLimits limits_;
    const bool compare_;
    std::size_t heap_ = 0;  ///< that the inbox has taken
    NotificationInbox inbox_;
    Model model_;
    std::string last_;
    bool took_ = false;
};

/// Two instances of one agent, and others.
Header sender(std::uint8_t which) {
    static constexpr const char* names[] = {"alpha", "alpha", "b", "mallory"};
    Header header;
    header.nonce = which & 3;
    header.name = names[which & 3];
    return header;
}

/// One that some sender may have, or nobody.
std::uint32_t mark_of(Feed& feed) {
    const auto which = feed.number<std::uint8_t>();
    return std::uint32_t{which & 3u} << 22 | which >> 2;
}

void number_or_mark(Feed& feed, Course& course) {
    const auto which = feed.number<std::uint8_t>();
    if (which & 128) return course.number(sender(which).nonce);
    course.immediate(mark_of(feed));
}

/// A whole message, cut by the real encoder, its fragments in one of a few orders.
void honest_message(Feed& feed, Course& course) {
    const Header from = sender(feed.number<std::uint8_t>());
    OutNotification out;
    out.kind = static_cast<MessageKind>(1 + feed.number<std::uint8_t>() % 5);
    const auto id = feed.number<std::uint8_t>();
    const auto order = feed.number<std::uint8_t>();
    if (order & 8) {
        out.kind = MessageKind::notify_early;
        out.mark = mark_of(feed);
    }
    const std::size_t size = 88 + from.name.size() + feed.number<std::uint8_t>();
    const std::size_t length = feed.number<std::uint16_t>() % 1000;
    out.message = std::string(feed.take(length));
    out.message.resize(length, 'z');
    out.start(from.name, from.nonce, id, 0, us, &course.auth);
    std::vector<std::string> fragments;
    for (bool more = true; more; more = out.advance(out)) {
        std::string buffer(size, '\0');
        buffer.resize(out.fill(out, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}));
        fragments.push_back(std::move(buffer));
    }
    if (order & 1) std::reverse(fragments.begin(), fragments.end());
    if (order & 2)
        std::rotate(fragments.begin(), fragments.begin() + order % fragments.size(), fragments.end());
    if (order & 4) fragments.pop_back();
    for (const std::string& fragment : fragments)
        course.fragment(fragment);
}

void crafted_fragment(Feed& feed, Course& course) {
    const auto lies = feed.number<std::uint8_t>();
    Header header = sender(feed.number<std::uint8_t>());
    header.kind = lies & 1 ? feed.number<std::uint8_t>() : 1;
    if (lies & 2) header.version = feed.number<std::uint8_t>();
    if (lies & 4) header.name = feed.take(feed.number<std::uint8_t>());
    header.id = feed.number<std::uint8_t>();
    header.total = lies & 8 ? feed.number<std::uint32_t>() : feed.number<std::uint8_t>();
    header.offset = lies & 16 ? feed.number<std::uint32_t>() : feed.number<std::uint8_t>();
    header.signature = course.auth.on() != ((lies & 32) != 0) ? 1 : 0;
    if (lies & 64) header.receiver = feed.number<std::uint8_t>();
    static const MessageAuth none, other(secret_text("another secret"));
    const MessageAuth& auth = lies & 128 ? (course.auth.on() ? other : none) : course.auth;
    course.fragment(fragment_of(header, feed.take(feed.number<std::uint8_t>()), auth));
}

/// Single bytes with gaps between them: the most pieces for the least input.
void scattered_fragments(Feed& feed, Course& course) {
    Header header = sender(feed.number<std::uint8_t>());
    header.id = feed.number<std::uint8_t>();
    header.total = feed.number<std::uint32_t>() % (17u << 20);
    const std::uint32_t stride = 1 + feed.number<std::uint8_t>() % 4;
    const unsigned count = feed.number<std::uint8_t>();
    header.offset = feed.number<std::uint16_t>();
    header.signature = course.auth.on() ? 1 : 0;
    for (unsigned i = 0; i < count; ++i, header.offset += stride)
        course.fragment(fragment_of(header, "x", course.auth));
}

void damaged_fragment(Feed& feed, Course& course) {
    std::string bytes = course.last();
    if (bytes.empty()) return;
    bytes[feed.number<std::uint16_t>() % bytes.size()] ^= static_cast<char>(feed.number<std::uint8_t>());
    const auto cut = feed.number<std::uint8_t>();
    if (cut & 1) bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), cut));
    course.fragment(bytes);
}

}  // namespace

bool fuzz_fragments(std::string_view input) {
    static const MessageAuth none;
    Course course({}, true, none);
    Feed feed(input);
    while (!feed.empty())
        course.fragment(std::string(feed.take(feed.number<std::uint16_t>())));
    course.take_notifications();
    course.take_letters();
    return course.took();
}

bool fuzz_control(std::string_view input) {
    Feed feed(input);
    static const MessageAuth none, secret(secret_text("the secret of the fuzzed cluster"));
    const auto setting = feed.number<std::uint8_t>();
    const bool tight = setting & 1;
    Course course(tight ? InboxLimits{20'000, 20'000, 20'000} : InboxLimits{}, !tight,
                  setting & 2 ? secret : none);
    for (int steps = 0; !feed.empty() && steps < 32; ++steps) {
        const auto step = feed.number<std::uint8_t>();
        switch (step % 8) {
            case 0:
            case 1:
                honest_message(feed, course);
                break;
            case 2:
            case 3:
                crafted_fragment(feed, course);
                break;
            case 4:
                scattered_fragments(feed, course);
                break;
            case 5:
                damaged_fragment(feed, course);
                break;
            case 6:
                course.fragment(std::string(course.last()));
                break;
            default:
                if (step & 8) {
                    number_or_mark(feed, course);
                    break;
                }
                course.take_notifications();
                course.take_letters();
        }
    }
    course.take_notifications();
    course.take_letters();
    return course.took();
}

}  // namespace railyard::fuzz
