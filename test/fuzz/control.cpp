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

#include "common/wire.h"
#include "engine/eager_message.h"
#include "engine/introduction.h"
#include "engine/notification.h"
#include "engine/request.h"
#include "inbox_model.h"
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
            case MessageKind::keys_asked:
                return static_cast<void>(decode_key_question(letter.text)), 0;
            case MessageKind::keys:
                return static_cast<void>(decode_key_answer(letter.text)), 0;
            case MessageKind::number_wanted:
            case MessageKind::number:
            case MessageKind::mark_asked:
            case MessageKind::mark_answer:
            case MessageKind::credit:
                return 0;
            case MessageKind::notify:
            case MessageKind::notify_early:
            case MessageKind::notify_early_several:
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
        call([&] { number = inbox_.number(nonce).number; });
        require(number == model_.number(nonce), "instances are numbered in turn");
    }
    void question(std::uint64_t nonce, std::uint32_t mark, std::uint32_t next, std::uint64_t id) {
        std::optional<bool> in_place;
        call([&] {
            unless_refused([&] {
                in_place = inbox_.is_in_place(nonce, mark, next, id);
                return 0;
            });
        });
        if (compare_)
            require(in_place == model_.is_in_place(nonce, mark, next, id),
                    "what has become of a mark is known");
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
            Letters got;
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
            const InboxModel::Whole& sent = model_.notifications[i];
            require(got[i].agent == sent.name && got[i].message == sent.text,
                    "a notification is what was sent");
        }
    }
    void check(const Letters& got) const {
        for (const Letter& letter : got)
            read_letter(letter);
        if (!compare_) return;
        require(got.size() == std::min<std::size_t>(model_.letters.size(), 4096), "whole letters");
        auto sent = model_.letters.begin();
        for (const Letter& letter : got) {
            require(static_cast<std::uint8_t>(letter.kind) == sent->kind && letter.agent == sent->name &&
                        letter.text == sent->text,
                    "a letter is what was sent");
            ++sent;
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
    InboxModel model_;
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
    if (which & 64) {
        const std::uint32_t mark = mark_of(feed), next = mark_of(feed);
        return course.question(sender(which).nonce, mark, next, feed.number<std::uint8_t>());
    }
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
        out.marks.first = mark_of(feed);
    }
    if (order & 16) {
        out.kind = MessageKind::notify_early_several;
        out.marks = {mark_of(feed), static_cast<std::uint8_t>(feed.number<std::uint8_t>() % 80)};
    }
    const std::size_t size = 89 + from.name.size() + feed.number<std::uint8_t>();
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
