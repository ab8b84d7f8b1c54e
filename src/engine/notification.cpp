#include "engine/notification.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "common/clock.h"
#include "common/log.h"
#include "common/wire.h"
#include "engine/metadata.h"
#include "engine/request.h"

namespace railyard {
namespace {

constexpr std::uint16_t letter_magic = 0x5259;
/// magic, version, type, signature, nonce, receiver, id, total, offset, name length
constexpr std::size_t fixed_header = 2 + 1 + 1 + 1 + 8 + 8 + 8 + 4 + 4 + 2;
/// What is behind the payload.
constexpr std::uint8_t no_signature = 0, hmac_sha256 = 1;
/// At least so much is between two lines in the log about refusals for one reason.
constexpr std::uint64_t complaint_pause_ns = 1'000'000'000;
constexpr std::size_t max_letter = std::size_t{2} << 20;
constexpr std::size_t max_letters = 4096;

std::string_view as_text(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Integer>
std::byte* put_number(std::byte* at, Integer value) noexcept {
    std::memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

}  // namespace

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the wire is little-endian and so is every host so far");

OutNotification::OutNotification() {
    fill = fill_next;
    advance = advance_one;
}

void OutNotification::start(const std::string& agent, std::uint64_t nonce, std::uint64_t id, PeerAddress to,
                            std::uint64_t receiver, const MessageAuth* auth) noexcept {
    agent_ = &agent;
    auth_ = auth;
    nonce_ = nonce;
    receiver_ = receiver;
    id_ = id;
    offset_ = filled_ = 0;
    destination = to;
    in_flight = 0;
    exhausted = false;
    status = Status::ok;
    stalled.reset();
    interrupted_at = 0;
    lost = restarted = false;
}

std::size_t OutNotification::header_size() const noexcept {
    return fixed_header + agent_->size() + (is_early(kind) ? sizeof(marks.first) : 0) +
           (kind == MessageKind::notify_early_several ? sizeof(marks.operations) : 0);
}

std::size_t OutNotification::fill_next(OutMessage& out, std::span<std::byte> buffer) noexcept {
    auto& self = static_cast<OutNotification&>(out);
    const std::size_t tag_size = self.is_signed() ? MessageAuth::tag_size : 0;
    const std::size_t room = buffer.size() - self.header_size() - tag_size;
    const std::size_t length = std::min(room, self.message.size() - self.offset_);
    std::byte* at = buffer.data();
    at = put_number(at, letter_magic);
    at = put_number(at, control_version);
    at = put_number(at, static_cast<std::uint8_t>(self.kind));
    at = put_number(at, self.is_signed() ? hmac_sha256 : no_signature);
    at = put_number(at, self.nonce_);
    at = put_number(at, self.receiver_);
    at = put_number(at, self.id_);
    at = put_number(at, static_cast<std::uint32_t>(self.message.size()));
    at = put_number(at, self.offset_);
    at = put_number(at, static_cast<std::uint16_t>(self.agent_->size()));
    std::memcpy(at, self.agent_->data(), self.agent_->size());
    at += self.agent_->size();
    if (is_early(self.kind)) at = put_number(at, self.marks.first);
    if (self.kind == MessageKind::notify_early_several) at = put_number(at, self.marks.operations);
    std::memcpy(at, self.message.data() + self.offset_, length);
    self.filled_ = static_cast<std::uint32_t>(length);
    const std::size_t size = self.header_size() + length;
    if (!self.is_signed()) return size;
    const MessageAuth::Tag tag = self.auth_->tag(MessageAuth::Use::fragment, as_text(buffer.first(size)));
    std::memcpy(buffer.data() + size, tag.data(), tag.size());
    return size + tag.size();
}

bool OutNotification::advance_one(OutMessage& out) noexcept {
    auto& self = static_cast<OutNotification&>(out);
    self.offset_ += self.filled_;
    return self.offset_ < self.message.size();
}

struct NotificationInbox::Fragment {
    Key key;
    MessageKind kind = MessageKind::notify;
    std::uint8_t signature = no_signature;
    std::uint64_t receiver = 0;
    std::uint32_t total = 0;
    std::uint32_t offset = 0;
    EarlyMarks marks;
    std::string_view agent;
    std::string_view payload;

    /// False for anything but a whole, consistent fragment; `bytes` are without the tag.
    bool parse(std::string_view bytes) {
        WireReader reader(bytes);
        const bool ours = reader.number<std::uint16_t>() == letter_magic &&
                          reader.number<std::uint8_t>() == control_version;
        const auto type = reader.number<std::uint8_t>();
        if (type < static_cast<std::uint8_t>(MessageKind::notify) ||
            type > static_cast<std::uint8_t>(MessageKind::notify_early_several))
            return false;
        kind = static_cast<MessageKind>(type);
        signature = reader.number<std::uint8_t>();
        key.first = reader.number<std::uint64_t>();
        receiver = reader.number<std::uint64_t>();
        key.second = reader.number<std::uint64_t>();
        total = reader.number<std::uint32_t>();
        offset = reader.number<std::uint32_t>();
        const auto name_length = reader.number<std::uint16_t>();
        if (!ours || !reader.ok() || name_length == 0 || name_length > max_agent_name) return false;
        agent = reader.raw(name_length);
        if (is_early(kind)) marks.first = reader.number<std::uint32_t>();
        if (kind == MessageKind::notify_early_several) marks.operations = reader.number<std::uint8_t>();
        payload = reader.rest();
        if (!reader.ok() || signature > hmac_sha256) return false;
        if (signature == hmac_sha256 && payload.size() >= MessageAuth::tag_size)
            payload.remove_suffix(MessageAuth::tag_size);
        const std::size_t limit = notifies(kind) ? max_notification : max_letter;
        if (total > limit || offset > total || payload.size() > total - offset) return false;
        return !payload.empty() || total == 0;
    }
};

/// Nothing is believed of a fragment, not even its length fields, before its tag is found right.
NotificationInbox::Refusal NotificationInbox::read(std::string_view bytes,
                                                   Fragment& fragment) const noexcept {
    const bool must_be_signed = auth_ && auth_->on();
    if (must_be_signed) {
        if (bytes.size() < MessageAuth::tag_size) return Refusal::tag;
        const std::size_t size = bytes.size() - MessageAuth::tag_size;
        if (!auth_->valid(MessageAuth::Use::fragment, bytes.substr(0, size), bytes.substr(size)))
            return Refusal::tag;
    }
    if (!fragment.parse(bytes)) return Refusal::malformed;
    if ((fragment.signature == hmac_sha256) != must_be_signed) return Refusal::tag;
    if (instance_ != 0 && fragment.receiver != instance_) return Refusal::not_for_us;
    return Refusal::none;
}

bool NotificationInbox::on_control(std::span<const std::byte> bytes) noexcept {
    try {
        Fragment fragment;
        Refusal refusal = read(as_text(bytes), fragment);
        if (refusal == Refusal::none && !accept(fragment)) refusal = Refusal::contradicts;
        if (refusal != Refusal::none) complain(refusal, bytes.size());
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    } catch (const std::exception& error) {
        RAILYARD_LOG(error, "control", "lost a notification fragment: %s", error.what());
        return true;
    }
}

void NotificationInbox::complain(Refusal refusal, std::size_t bytes) noexcept {
    static constexpr const char* reasons[] = {
        "", "not a consistent fragment of a control message of this version",
        "it contradicts what has come of its message, or too much waits",
        "it is for another instance than this one",
        "it has no valid tag: cluster_secret is not the same on its sender and here"};
    static_assert(std::size(reasons) == static_cast<std::size_t>(Refusal::count));
    Complaint& complaint = complaints_[static_cast<std::size_t>(refusal)];
    const std::uint64_t now = now_ns();
    std::uint64_t before = complaint.said_at.load(std::memory_order_relaxed);
    if ((before != 0 && now < before + complaint_pause_ns) ||
        !complaint.said_at.compare_exchange_strong(before, now, std::memory_order_relaxed)) {
        complaint.unsaid.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    RAILYARD_LOG(warn, "control",
                 "refused a message of %zu bytes: %s (and %llu more for that reason since the last line)",
                 bytes, reasons[static_cast<std::size_t>(refusal)],
                 static_cast<unsigned long long>(complaint.unsaid.exchange(0, std::memory_order_relaxed)));
}

std::size_t NotificationInbox::Partial::held() const noexcept {
    return message_overhead + agent.size() + pieces.held();
}

bool NotificationInbox::Partial::agrees_with(const Fragment& fragment) const noexcept {
    return total == fragment.total && kind == fragment.kind && marks == fragment.marks &&
           agent == fragment.agent;
}

/// One that goes another way is sent from its start.
bool NotificationInbox::Partial::has_again(const Fragment& fragment) {
    if (whole() || !pieces.has(fragment.offset, fragment.payload)) return false;
    last_seen = now_ns();
    return true;
}

bool NotificationInbox::accept(const Fragment& fragment) {
    if (fragment.kind == MessageKind::ping) return true;  // that it came is all
    if (fragment.kind == MessageKind::eager_answer) return pass_on_answer(fragment);
    if (fragment.kind == MessageKind::eager_data) {
        pass_on_data(fragment);
        return true;
    }
    const MutexLock lock(mutex_);
    if (is_early(fragment.kind)) {
        const std::uint64_t writer = early_.instance_of(fragment.marks.first);
        if (writer == 0 || writer != fragment.key.first) return false;
    }
    if (delivered_.contains(fragment.key.first, fragment.key.second)) return true;
    place_late();
    if (fragment.payload.size() == fragment.total) {
        EarlyNotices::Notice whole{std::string(fragment.agent), std::string(fragment.payload)};
        return deliver(fragment, whole);
    }
    auto found = partial_.find(fragment.key);
    if (found != partial_.end() && !found->second.agrees_with(fragment)) return false;
    if (found != partial_.end() && found->second.has_again(fragment)) return true;
    // One that was whole, and that there was no memory for, has this piece.
    if (found == partial_.end() || !found->second.whole()) {
        if (!has_room(fragment)) {
            if (is_early(fragment.kind)) drop_unfinished(fragment.marks, fragment.key, fragment.agent);
            return false;
        }
        found = add_piece(fragment);
        if (found == partial_.end()) return false;
        if (!found->second.whole()) return true;
    }
    return deliver_partial(fragment, found);
}

/// One that is whole.
bool NotificationInbox::deliver_partial(const Fragment& fragment, Partials::iterator found) {
    Partial& partial = found->second;
    const std::size_t held = partial.held();
    EarlyNotices::Notice whole{{}, partial.pieces.take()};
    whole.agent.swap(partial.agent);
    bool delivered = false;
    held_.unfinished -= held;
    try {
        delivered = deliver(fragment, whole);
    } catch (const std::bad_alloc&) {
        whole.agent.swap(partial.agent);
        partial.pieces.put_back(std::move(whole.message));
        held_.unfinished += partial.held();
        throw;
    }
    partial_.erase(found);
    return delivered;
}

/// Not noted among what has come: one that comes twice ends nothing.
bool NotificationInbox::pass_on_answer(const Fragment& fragment) const {
    Answer answer;
    try {
        answer = decode_answer(fragment.payload);
    } catch (const Error&) {
        return false;
    }
    AnswerSink* const sink = answers_.load(std::memory_order_acquire);
    if (sink) sink->on_answer(fragment.key.first, answer);
    return true;
}

/// Likewise, and put in its place piece by piece.
void NotificationInbox::pass_on_data(const Fragment& fragment) const noexcept {
    AnswerSink* const sink = answers_.load(std::memory_order_acquire);
    if (sink)
        sink->on_data(fragment.key.first, fragment.key.second, fragment.total, fragment.offset,
                      fragment.payload);
}

bool NotificationInbox::has_room(const Fragment& fragment) {
    const std::size_t most =
        message_overhead + fragment.agent.size() + FragmentPieces::piece_overhead + fragment.payload.size();
    return held_.unfinished + most <= limits_.unfinished || make_room(most);
}

/// Of a message that it agrees with. The end, and nothing changed, unless it is a new part.
NotificationInbox::Partials::iterator NotificationInbox::add_piece(const Fragment& fragment) {
    auto found = partial_.find(fragment.key);
    if (found == partial_.end()) {
        Partial fresh{fragment.kind, std::string(fragment.agent), fragment.total, fragment.marks, {}, 0};
        found = partial_.emplace(fragment.key, std::move(fresh)).first;
        held_.unfinished += found->second.held();
    }
    Partial& partial = found->second;
    const std::size_t before = partial.held();
    const bool added = partial.pieces.add(fragment.offset, fragment.payload);
    if (added) partial.last_seen = now_ns();
    held_.unfinished += partial.held() - before;
    return added ? found : partial_.end();
}

/// Throws std::bad_alloc, with nothing changed.
bool NotificationInbox::deliver(const Fragment& fragment, EarlyNotices::Notice& whole) {
    const std::size_t bytes = cost(whole.agent, whole.message);
    if (fragment.kind == MessageKind::notify) {
        if (held_.notifications + bytes > limits_.notifications) return false;
        delivered_.prepare(fragment.key.first);
        room_for_one(ready_);
        delivered_.add(fragment.key.first, fragment.key.second, true);
        push(std::move(whole.agent), std::move(whole.message));
        return true;
    }
    if (is_early(fragment.kind)) return deliver_early(fragment.marks, fragment.key, whole);
    if (letters_.size() >= max_letters || held_.letters + bytes > limits_.letters) return false;
    Letters letter(1);
    delivered_.prepare(fragment.key.first);
    delivered_.add(fragment.key.first, fragment.key.second);
    letter.front() = {fragment.kind, std::move(whole.agent), fragment.key.first, std::move(whole.message)};
    letters_.splice(letters_.end(), letter);
    held_.letters += bytes;
    letter_count_.store(letters_.size(), std::memory_order_release);
    return true;
}

void NotificationInbox::take_letters(Letters& out) noexcept {
    const MutexLock lock(mutex_);
    out.splice(out.end(), letters_);
    held_.letters = 0;
    letter_count_.store(0, std::memory_order_release);
}

void NotificationInbox::put_back(Letters letters) noexcept {
    const MutexLock lock(mutex_);
    for (const Letter& letter : letters)
        held_.letters += cost(letter.agent, letter.text);
    letters_.splice(letters_.begin(), letters);
    letter_count_.store(letters_.size(), std::memory_order_release);
}

std::uint64_t NotificationInbox::notifications_from(std::uint64_t nonce) const {
    const MutexLock lock(mutex_);
    return delivered_.notifications(nonce);
}

InboxLimits NotificationInbox::held() const {
    const MutexLock lock(mutex_);
    return held_;
}

void NotificationInbox::push(std::string agent, std::string message) {
    const std::size_t bytes = cost(agent, message);
    ready_.push_back({std::move(agent), std::move(message)});
    held_.notifications += bytes;
    tell_of_ready();
}

void NotificationInbox::put(const std::string& agent, const std::string& message) {
    const MutexLock lock(mutex_);
    push(agent, message);
}

void NotificationInbox::take(std::vector<Notification>& out) {
    const MutexLock lock(mutex_);
    place_late();
    out.reserve(out.size() + ready_.size());  // may throw: then all is still here
    for (Notification& notification : ready_)
        out.push_back(std::move(notification));
    ready_.clear();
    held_.notifications = promised_;
    tell_of_ready();
}

}  // namespace railyard
