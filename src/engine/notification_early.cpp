// An inbox's part in notifications that leave together with their data.
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/notification.h"

namespace railyard {

/// Counted, and given to the application, once its data is in place.
bool NotificationInbox::deliver_early(EarlyMarks marks, const Key& key, EarlyNotices::Notice& notice) {
    const std::size_t bytes = cost(notice.agent, notice.message);
    if (held_.notifications + bytes > limits_.notifications ||
        held_.unfinished + bytes > limits_.unfinished) {
        drop_early(marks, key, notice.agent);
        return false;
    }
    delivered_.prepare(key.first);
    room_for_one(ready_);
    const EarlyNotices::Taken taken = early_.take(marks, notice);
    if (taken == EarlyNotices::Taken::refused) return false;
    owes_credit_.store(early_.owes_credit(), std::memory_order_relaxed);
    const bool in_place = taken == EarlyNotices::Taken::in_place;
    delivered_.add(key.first, key.second, in_place);
    if (in_place) {
        push(std::move(notice.agent), std::move(notice.message));
    } else {
        held_.unfinished += bytes;
    }
    return true;
}

/// There is no room for it. Its marks come all the same: they are looked at, and not left for a later one.
void NotificationInbox::drop_early(EarlyMarks marks, const Key& key, std::string_view agent) {
    delivered_.prepare(key.first);
    EarlyNotices::Notice dropped{std::string(agent), {}};
    if (early_.take(marks, dropped, false) == EarlyNotices::Taken::refused) return;
    owes_credit_.store(early_.owes_credit(), std::memory_order_relaxed);
    delivered_.add(key.first, key.second);
}

/// The same of one that may have come in part.
void NotificationInbox::drop_unfinished(EarlyMarks marks, const Key& key, std::string_view agent) {
    drop_early(marks, key, agent);
    const auto begun = partial_.find(key);
    if (begun == partial_.end()) return;
    held_.unfinished -= begun->second.held();
    partial_.erase(begun);
}

void NotificationInbox::on_immediate(std::uint32_t data) noexcept {
    if (auto* const sink = immediates_.load(std::memory_order_acquire)) return sink->on_immediate(data);
    const MutexLock lock(mutex_);
    place_late();
    if (place(data)) return;
    if (late_marks_ == late_.size()) {
        RAILYARD_LOG(
            error, "control",
            "no memory: the word that a peer's data is in place was lost, and with it its notification");
        return;
    }
    late_[late_marks_++] = data;
    tell_of_ready();
}

/// False: there is no memory for it, and nothing has changed.
bool NotificationInbox::place(std::uint32_t mark) noexcept {
    try {
        if (early_.is_one_too_many(mark)) [[unlikely]]
            cut_off(mark);
        room_for_one(ready_);
        std::optional<EarlyNotices::Notice> notice = early_.placed(mark);
        owes_credit_.store(early_.owes_credit(), std::memory_order_relaxed);
        if (!notice) return true;
        held_.unfinished -= cost(notice->agent, notice->message);
        delivered_.count_notification(early_.instance_of(mark));
        push(std::move(notice->agent), std::move(notice->message));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

/// A writer that pays no heed to what it was told. Throws std::bad_alloc, with nothing done.
void NotificationInbox::cut_off(std::uint32_t mark) {
    const std::uint64_t instance = early_.instance_of(mark);
    no_more_of(early_.cut_off(mark));
    RAILYARD_LOG(warn, "control",
                 "instance %016llx has %u marks without their notifications, and was told that it may be %u "
                 "ahead at most: none of its notifications together with their data is taken any more",
                 static_cast<unsigned long long>(instance), unsigned{EarlyNotices::most_unmatched} + 1,
                 unsigned{EarlyMark::favoured_window});
}

/// They have waited in vain.
void NotificationInbox::no_more_of(const std::vector<EarlyNotices::Notice>& notices) noexcept {
    for (const EarlyNotices::Notice& notice : notices)
        held_.unfinished -= cost(notice.agent, notice.message);
}

void NotificationInbox::place_those_late() noexcept {
    std::size_t left = 0;
    for (std::size_t i = 0; i < late_marks_; ++i) {
        if (!place(late_[i])) late_[left++] = late_[i];
    }
    late_marks_ = left;
    tell_of_ready();
}

EarlyNotices::Number NotificationInbox::number(std::uint64_t instance, std::uint32_t old) {
    if (immediates_.load(std::memory_order_acquire)) return {};
    const MutexLock lock(mutex_);
    early_.close(instance, old, now_ns());
    return early_.number(instance);
}

EarlyNotices::Number NotificationInbox::rested_number(std::uint64_t instance, std::uint64_t now_ns) {
    if (immediates_.load(std::memory_order_acquire)) return {};
    const MutexLock lock(mutex_);
    no_more_of(early_.free_closed(now_ns));
    return early_.number(instance);
}

bool NotificationInbox::is_in_place(std::uint64_t instance, std::uint32_t mark, std::uint32_t next,
                                    std::uint64_t message) {
    const MutexLock lock(mutex_);
    if (early_.instance_of(mark) != instance) throw Error(Status::mismatch, "another's mark");
    const std::optional<bool> taken = delivered_.has_come(instance, message);
    if (!taken) throw Error(Status::mismatch, "what became of a mark is not known any more");
    return early_.is_in_place(mark, next, *taken);
}

EarlyNotices::Credits NotificationInbox::take_credits() noexcept {
    const MutexLock lock(mutex_);
    owes_credit_.store(false, std::memory_order_relaxed);
    return early_.take_credits();
}

void NotificationInbox::give_back(EarlyNotices::Credits credits) noexcept {
    const MutexLock lock(mutex_);
    early_.give_back(std::move(credits));
    owes_credit_.store(early_.owes_credit(), std::memory_order_relaxed);
}

void NotificationInbox::put_off(const EarlyNotices::Credit& credit) noexcept {
    const MutexLock lock(mutex_);
    early_.put_off(credit);
}

void NotificationInbox::owe(const std::string& agent, std::uint64_t instance) noexcept {
    const MutexLock lock(mutex_);
    early_.owe(agent, instance);
    owes_credit_.store(early_.owes_credit(), std::memory_order_relaxed);
}

std::vector<std::uint64_t> NotificationInbox::instances_in_the_way() const {
    const MutexLock lock(mutex_);
    return early_.is_short() ? early_.instances() : std::vector<std::uint64_t>{};
}

void NotificationInbox::close_lost(std::span<const std::uint64_t> instances) noexcept {
    const MutexLock lock(mutex_);
    early_.close_lost(instances, now_ns());
}

}  // namespace railyard
