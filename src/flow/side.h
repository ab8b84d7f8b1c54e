// What a target and an initiator have in common: an engine with its registered regions, and a way to sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/memory_range.h"
#include "common/signals_blocked.h"
#include "engine/engine.h"
#include "flow/letters.h"

namespace railyard::flow {

/// Every call came to one of these; ryf_status in C++.
enum class Outcome { ok, not_ready, timeout, interrupted, disconnected, failed };

/// One region a grain.
struct Region {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device = 0;
    MemoryType type = MemoryType::host;
};

struct SideConfig {
    std::vector<std::string> providers;  ///< as the engine's parameter; the first that has devices
    std::string devices;                 ///< as the engine's parameter
    std::uint32_t rails = 0;
    std::uint32_t rails_per_device = 1;
    std::vector<Region> regions;
    std::uint32_t slices = 1;
};

/// No device of that kind; else an Error like any other.
class NoFabric : public Error {
  public:
    using Error::Error;
};

class Side {
  public:
    /// Opens the rails and registers the regions. Throws Error, NoFabric.
    Side(const char* role, const SideConfig& config);
    ~Side();
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    [[nodiscard]] Engine& engine() noexcept { return *engine_; }
    [[nodiscard]] bool own_process() const noexcept { return engine_->own_process(); }
    void require_own_process() const { engine_->require_own_process(); }
    [[nodiscard]] const std::vector<std::shared_ptr<Registration>>& regions() const noexcept {
        return regions_;
    }
    [[nodiscard]] std::uint64_t grain_length() const noexcept { return length_; }
    [[nodiscard]] std::uint32_t grains() const noexcept {
        return static_cast<std::uint32_t>(regions_.size());
    }
    [[nodiscard]] const std::string& name() const noexcept { return engine_->agent_name(); }

    /// Hands `take` the messages that have come, with their senders; what is none, or is refused by an
    /// exception, is logged. `room` is the caller's, for the messages: what there is no memory for stays
    /// there, in front of those of the next call. Throws std::bad_alloc then.
    template <class Take>
    void read_letters(std::vector<Notification>& room, Take take);

    /// Wakes one sleeper at least, however often it is called until that is awake, and makes the descriptor
    /// readable, if there is one. Any thread.
    void ring() noexcept;
    /// A descriptor to poll, ours, the same each time: readable from the start, and from each ring() on until
    /// rest(). Any thread. Throws Error.
    [[nodiscard]] int descriptor();
    /// For who has found nothing: the descriptor is readable no more. True: something may have come before
    /// the next ring() that is heard, and has to be looked for again. Any thread.
    bool rest() noexcept { return rung_.load(std::memory_order_relaxed) && take_ring(); }
    /// Or a descriptor. Any thread.
    [[nodiscard]] bool has_sleepers() const noexcept {
        return sleepers_.load(std::memory_order_relaxed) != 0;
    }
    /// Until over() is true, for at most `timeout_ms`; asks it again after each ring(), and at least every
    /// `nap_ms`. ok, timeout, or interrupted, when a signal was handled while it slept. Several threads may
    /// wait.
    template <class Over>
    Outcome wait(Over over, std::uint32_t timeout_ms, std::uint32_t nap_ms);

  private:
    class Sleep;
    static constexpr std::uint64_t spin_ns = 50'000;
    static constexpr std::uint32_t with_descriptor = 1u << 16;

    bool take_ring() noexcept;

    std::unique_ptr<Engine> engine_;
    std::vector<std::shared_ptr<Registration>> regions_;
    std::uint64_t length_ = 0;
    int bell_ = -1;                           // eventfd
    std::atomic<std::uint32_t> sleepers_{0};  ///< and with_descriptor, where there is one
    std::atomic<int> descriptor_{-1};         ///< eventfd; released by descriptor(), for ring()
    /// The descriptor is readable, or about to be. Pairs with itself: who clears it sees what was put in
    /// place before each ring() that found it set.
    std::atomic<bool> rung_{false};
};

template <class Take>
void Side::read_letters(std::vector<Notification>& room, Take take) {
    engine_->take_notifications(room);
    for (auto next = room.begin(); next != room.end(); ++next) {
        try {
            take(next->agent, decode_letter(next->message));
        } catch (const std::bad_alloc&) {
            room.erase(room.begin(), next);
            throw;
        } catch (const std::exception& error) {
            RAILYARD_LOG(warn, name().c_str(), "a message of %s is refused: %s", next->agent.c_str(),
                         error.what());
        }
    }
    room.clear();
}

/// While one waits asleep: signals are held back but for the moments in which it really sleeps, so that none
/// is missed in between.
class Side::Sleep {
  public:
    explicit Sleep(Side& side) noexcept;
    ~Sleep();
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;
    /// False: a signal was handled.
    bool nap(std::uint64_t nanoseconds) noexcept;

  private:
    Side& side_;
    const SignalsBlocked blocked_;
};

template <class Over>
Outcome Side::wait(Over over, std::uint32_t timeout_ms, std::uint32_t nap_ms) {
    if (over()) return Outcome::ok;
    const std::uint64_t begun = now_ns(), end = begun + timeout_ms * std::uint64_t{1'000'000};
    for (std::uint64_t now = begun; now < end && now - begun < spin_ns; now = now_ns()) {
        engine_->progress();
        if (over()) return Outcome::ok;
    }
    Sleep sleep(*this);
    for (;;) {
        if (over()) return Outcome::ok;
        const std::uint64_t now = now_ns();
        if (now >= end) return Outcome::timeout;
        if (!sleep.nap(std::min(end - now, nap_ms * std::uint64_t{1'000'000})))
            return over() ? Outcome::ok : Outcome::interrupted;
    }
}

}  // namespace railyard::flow
