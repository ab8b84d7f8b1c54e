#include "wire.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace railyard::test {
namespace {

constexpr std::size_t longest_frame = 65536;
constexpr int hold_ms = 2;  ///< a packet that nothing overtakes is late by so much
constexpr int most_overtaking = 5;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// For a thread of its own, which is in that namespace afterwards. -1 with errno.
int open_tap(const std::string& name, const std::string& device) {
    const int place = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (place < 0) return -1;
    const int entered = setns(place, CLONE_NEWNET);
    close(place);
    if (entered != 0) return -1;
    const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    device.copy(request.ifr_name, IFNAMSIZ - 1);
    if (tap >= 0 && ioctl(tap, TUNSETIFF, &request) != 0) {
        close(tap);
        return -1;
    }
    return tap;
}

constexpr std::size_t ip_header = 14;  // where it begins

bool is_ipv4(const std::vector<std::uint8_t>& frame) {
    return frame.size() > ip_header && frame[12] == 0x08 && frame[13] == 0x00;
}

/// Addresses and ports of a packet, from whoever has the lesser ones; empty: it is none of a connection.
std::string connection_of(const std::vector<std::uint8_t>& frame, std::uint8_t& flags) {
    if (!is_ipv4(frame) || frame.size() < ip_header + 20 || frame[ip_header + 9] != 6) return {};
    const std::size_t tcp = ip_header + (frame[ip_header] & 0xfU) * 4;
    if (frame.size() < tcp + 20) return {};
    const auto text = [&](std::size_t from, std::size_t length) {
        return std::string(reinterpret_cast<const char*>(frame.data()) + from, length);
    };
    const std::string from = text(ip_header + 12, 4) + text(tcp, 2);
    const std::string to = text(ip_header + 16, 4) + text(tcp + 2, 2);
    flags = frame[tcp + 13];
    return std::min(from, to) + std::max(from, to);
}

}  // namespace

Wire::Wire(const std::array<std::string, 2>& namespaces, const std::string& device, Quality quality)
    : quality_(quality) {
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        int error = 0;
        std::thread([&] {
            ends_[i] = open_tap(namespaces[i], device);
            error = errno;
        }).join();
        errno = error;
        if (ends_[i] < 0) fail("a TAP device in " + namespaces[i]);
    }
    stop_ = eventfd(0, EFD_CLOEXEC);
    if (stop_ < 0) fail("eventfd");
    thread_ = std::thread([this] { carry(); });
}

Wire::~Wire() {
    eventfd_write(stop_, 1);
    thread_.join();
    for (const int fd : {ends_[0], ends_[1], stop_})
        close(fd);
}

/// xorshift64, so that each run draws the same.
double Wire::draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<double>(random_ >> 11) / static_cast<double>(std::uint64_t{1} << 53);
}

void Wire::deliver(int to, const std::vector<std::uint8_t>& frame) {
    // A device that is down refuses: lost as on any wire.
    if (write(ends_.at(static_cast<std::size_t>(to)), frame.data(), frame.size()) > 0) ++carried_;
}

bool Wire::is_stray(const std::vector<std::uint8_t>& frame) {
    constexpr std::uint8_t syn = 2, ack = 16;
    if (forgets_.exchange(false)) known_.clear();
    std::uint8_t flags = 0;
    const std::string connection = connection_of(frame, flags);
    if (connection.empty()) return false;
    if ((flags & (syn | ack)) == syn) known_.insert(connection);
    return !known_.contains(connection);
}

void Wire::pass_on(int to, const std::vector<std::uint8_t>& frame) {
    const bool suffers = is_ipv4(frame);
    if (is_stray(frame) || (suffers && draw() < quality_.loss)) {
        ++lost_;
        return;
    }
    if (suffers && draw() < quality_.delay) {
        held_.push_back({to, 1 + static_cast<int>(draw() * most_overtaking), frame});
        return;
    }
    deliver(to, frame);
    for (Held& held : held_) {
        if (held.to == to) --held.packets_to_wait;
    }
    let_go(false);
}

void Wire::let_go(bool all) {
    for (auto held = held_.begin(); held != held_.end();) {
        if (!all && held->packets_to_wait > 0) {
            ++held;
            continue;
        }
        if (held->packets_to_wait <= 0) ++overtaken_;
        deliver(held->to, held->frame);
        held = held_.erase(held);
    }
}

void Wire::carry() {
    std::vector<std::uint8_t> frame;
    pollfd ready[3] = {{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}, {stop_, POLLIN, 0}};
    for (;;) {
        if (poll(ready, 3, held_.empty() ? -1 : hold_ms) == 0) let_go(true);
        if (ready[2].revents) return;
        for (int from = 0; from < 2; ++from) {
            if (!(ready[from].revents & POLLIN)) continue;
            frame.resize(longest_frame);
            const ssize_t length = read(ready[from].fd, frame.data(), frame.size());
            if (length <= 0) continue;
            frame.resize(static_cast<std::size_t>(length));
            pass_on(1 - from, frame);
        }
    }
}

}  // namespace railyard::test
