#include "provider/network_model.h"

#include <algorithm>
#include <atomic>

namespace simefa {
namespace {

constexpr std::uint64_t header_bytes = 64;  // of a message without payload, so that it takes time, too

std::uint64_t wire_time(std::uint64_t bytes, std::uint64_t rate) noexcept {
    if (rate == 0) return 0;
    const auto scaled = static_cast<unsigned __int128>(std::max(bytes, header_bytes)) * 1'000'000'000;
    return static_cast<std::uint64_t>(scaled / rate);
}

/// Takes `duration` of the wire from `ready` on, or from when it is free; returns the end.
std::uint64_t reserve(std::atomic<std::uint64_t>& busy_until, std::uint64_t ready,
                      std::uint64_t duration) noexcept {
    if (duration == 0) return ready;
    std::uint64_t busy = busy_until.load(std::memory_order_relaxed);
    for (;;) {
        const std::uint64_t end = std::max(ready, busy) + duration;
        if (busy_until.compare_exchange_weak(busy, end, std::memory_order_relaxed)) return end;
    }
}

struct Path {
    std::atomic<std::uint64_t>* sender = nullptr;
    std::atomic<std::uint64_t>* receiver = nullptr;
    std::uint64_t send_rate = 0, receive_rate = 0;
};

Path path_of(const Nic& nic, NicSlot* remote, const Operation& operation) noexcept {
    NicSlot& local = nic.slot();
    Path path;
    if (operation.kind == Operation::Kind::read) {
        path.receiver = &local.rx_busy_until;
        path.receive_rate = nic.get(Setting::rx_rate);
        if (remote) {
            path.sender = &remote->tx_busy_until;
            path.send_rate = remote->get(Setting::tx_rate);
        }
    } else {
        path.sender = &local.tx_busy_until;
        path.send_rate = nic.get(Setting::tx_rate);
        if (remote) {
            path.receiver = &remote->rx_busy_until;
            path.receive_rate = remote->get(Setting::rx_rate);
        }
    }
    return path;
}

std::uint64_t booked_until(const Path& path) noexcept {
    std::uint64_t until = 0;
    if (path.send_rate && path.sender) until = path.sender->load(std::memory_order_relaxed);
    if (path.receive_rate && path.receiver)
        until = std::max(until, path.receiver->load(std::memory_order_relaxed));
    return until;
}

}  // namespace

bool book(Nic& nic, NicSlot* remote, Operation& operation, std::uint64_t now) noexcept {
    const Path path = path_of(nic, remote, operation);
    std::uint64_t end = operation.posted_at;
    if (path.send_rate || path.receive_rate) {
        if (booked_until(path) > now + booking_horizon) return false;
        const std::uint64_t send_time = path.sender ? wire_time(operation.length, path.send_rate) : 0;
        const std::uint64_t receive_time = path.receiver ? wire_time(operation.length, path.receive_rate) : 0;
        if (send_time) end = reserve(*path.sender, operation.posted_at, send_time);
        // The receiver takes the first byte when the sender gives it, so the two times overlap.
        if (receive_time) {
            const std::uint64_t first_byte = end - send_time;
            end = std::max(end, reserve(*path.receiver, first_byte, receive_time));
        }
    }
    operation.due = end + nic.get(Setting::latency) + nic.random().below(nic.get(Setting::jitter));
    return true;
}

std::uint64_t bookable_at(const Nic& nic, const NicSlot* remote, const Operation& operation) noexcept {
    const std::uint64_t until = booked_until(path_of(nic, const_cast<NicSlot*>(remote), operation));
    return until > booking_horizon ? until - booking_horizon : 0;
}

}  // namespace simefa
