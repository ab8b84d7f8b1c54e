// One process of a group: its agent, its memory, and the transfers with its targets, as a driver of the timed
// loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control.h"
#include "host/agent.h"
#include "opened.h"
#include "options.h"
#include "request_ring.h"
#include "side_memory.h"
#include "target_notifications.h"
#include "workload.h"

namespace railyard::bench {

/// With every target it shares a slice of memory on either side, with contents of its own, so that whatever
/// lands in another's slice is seen. Slot s is a transfer with target s modulo the number of targets. One
/// thread.
class Mesh {
  public:
    /// `length`: bytes of a slice, a multiple of the page size. Throws Failure, and Error of the plugin.
    Mesh(const Options& options, unsigned rank, std::uint64_t length);

    [[nodiscard]] Opened opened() const { return opened_by(agent_.metadata()); }
    /// What the others need to join.
    [[nodiscard]] Message introduction() const;
    /// Of every rank, in order.
    void join(const std::vector<Message>& introductions);
    void connect();

    [[nodiscard]] bool initiates() const noexcept { return !outgoing_.empty(); }
    [[nodiscard]] unsigned targets() const noexcept { return static_cast<unsigned>(outgoing_.size()); }
    [[nodiscard]] unsigned target_of(unsigned slot) const { return outgoing_[slot % targets()]->other; }

    void prepare(const Point& point);
    void release() noexcept { ring_.release(); }
    void post(unsigned slot) { ring_.post(slot); }
    std::span<const unsigned> harvest() { return ring_.harvest(); }
    /// Of the outstanding transfer that was posted first.
    [[nodiscard]] std::optional<unsigned> oldest_target() const;

    /// Contents into this process's end of each slice: what is to be moved, or the inverse of what is to
    /// come.
    void fill(const Point& point, std::uint64_t seed);
    /// What is wrong with what has come; "" for nothing.
    [[nodiscard]] std::string check(const Point& point, std::uint64_t seed);

    /// Begins to count the notifications of the next phase. `seed`: what has come is to be right as soon as
    /// its notification is there.
    void expect(const Point& point, std::optional<std::uint64_t> seed);
    /// Takes what notifications have come, which moves this side.
    void serve();
    /// How often each slot was posted, as account() reads it, by target.
    [[nodiscard]] Message posts(const std::vector<std::uint64_t>& of_slots) const;
    /// Waits for as many notifications as `posts` of all ranks tell, while any come within `patience`. What
    /// is wrong with them, "" for nothing.
    [[nodiscard]] std::string account(const std::vector<Message>& posts, std::chrono::milliseconds patience);

  private:
    /// A slice that is shared with rank `other`.
    struct Slice {
        Slice(unsigned other_, const Place& place, std::uint64_t length)
            : other(other_), memory(place, length) {}
        unsigned other;
        SideMemory memory;
        std::string peer;  ///< its agent
        host::Range remote;
        NotificationAccount notifications;
    };
    using Slices = std::vector<std::unique_ptr<Slice>>;

    [[nodiscard]] std::uint64_t seed_of(std::uint64_t seed, unsigned initiator,
                                        unsigned target) const noexcept;
    [[nodiscard]] std::uint64_t received() const noexcept;

    const Options& options_;
    const unsigned rank_;
    Slices outgoing_;  ///< one for each of our targets
    Slices incoming_;  ///< one for each of those whose target we are
    host::Agent agent_;
    RequestRing ring_;

    Point expected_;
    std::optional<std::uint64_t> arrival_seed_;
    std::string arrival_wrong_, stranger_;
};

}  // namespace railyard::bench
