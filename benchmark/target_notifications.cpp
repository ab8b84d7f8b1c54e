// Counting notifications.
#include "target_notifications.h"

#include <charconv>
#include <utility>

namespace railyard::bench {

void NotificationAccount::begin(std::string sender, unsigned point, unsigned window) {
    sender_ = std::move(sender);
    prefix_ = "railyard-bench:" + std::to_string(point) + ":";
    counts_.assign(window, 0);
    received_ = 0;
    first_wrong_.reset();
}

std::optional<unsigned> NotificationAccount::take(std::string_view sender, std::string_view message) {
    ++received_;
    unsigned slot = 0;
    if (sender == sender_ && message.substr(0, prefix_.size()) == prefix_) {
        const char* end = message.data() + message.size();
        auto [stop, error] = std::from_chars(message.data() + prefix_.size(), end, slot);
        if (error == std::errc{} && stop == end && slot < counts_.size()) {
            ++counts_[slot];
            return slot;
        }
    }
    if (!first_wrong_) {
        first_wrong_ = "unexpected notification '" + std::string(message.substr(0, 100)) + "' of " +
                       std::to_string(message.size()) + " bytes from '" + std::string(sender.substr(0, 100)) +
                       "', wanted '" + prefix_ + "N' from '" + sender_ + "'";
    }
    return std::nullopt;
}

std::optional<std::string> NotificationAccount::wrong(const std::vector<std::uint64_t>& posts) const {
    if (first_wrong_) return first_wrong_;
    for (std::size_t slot = 0; slot < counts_.size(); ++slot) {
        std::uint64_t posted = slot < posts.size() ? posts[slot] : 0;
        if (counts_[slot] != posted) {
            return "transfer " + std::to_string(slot) + " was posted " + std::to_string(posted) +
                   " times with a notification and announced " + std::to_string(counts_[slot]) + " times";
        }
    }
    return std::nullopt;
}

}  // namespace railyard::bench
