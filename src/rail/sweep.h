// How a rail gets round all that waits, past any number of destinations that take nothing.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "rail/pending_list.h"
#include "rail/work.h"

namespace railyard {

/// A few destinations, forgotten all at once. Role holder only.
class PeerSet {
  public:
    [[nodiscard]] bool contains(PeerAddress peer) const noexcept {
        if (count_ == 0) [[likely]]
            return false;
        for (std::size_t at = place(peer); entries_[at].pass == pass_; at = (at + 1) % entries_.size()) {
            if (entries_[at].peer == peer) return true;
        }
        return false;
    }
    /// `first`: see first_of.
    void insert(PeerAddress peer, void* first = nullptr) noexcept {
        if (full() || contains(peer)) return;
        std::size_t at = place(peer);
        while (entries_[at].pass == pass_)
            at = (at + 1) % entries_.size();
        entries_[at] = {peer, pass_, first};
        ++count_;
    }
    /// What others may wait behind; nullptr: nothing.
    [[nodiscard]] void* first_of(PeerAddress peer) const noexcept {
        if (count_ == 0) return nullptr;
        for (std::size_t at = place(peer); entries_[at].pass == pass_; at = (at + 1) % entries_.size()) {
            if (entries_[at].peer == peer) return entries_[at].first;
        }
        return nullptr;
    }
    void clear() noexcept {
        if (count_ == 0) return;
        ++pass_;
        count_ = 0;
    }
    template <class Function>
    void for_each(Function function) const noexcept {
        for (const Entry& entry : entries_) {
            if (entry.pass == pass_) function(entry.peer);
        }
    }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] bool full() const noexcept { return count_ == most; }
    [[nodiscard]] bool half_full() const noexcept { return count_ >= most / 2; }

    static constexpr std::size_t most = 96;

  private:
    struct Entry {
        PeerAddress peer = no_address;
        std::uint64_t pass = 0;  ///< an entry of another pass is free
        void* first = nullptr;
    };
    static std::size_t place(PeerAddress peer) noexcept {
        // Handles are small numbers, or addresses of what is larger than a cache line.
        return (peer ^ (peer >> 7)) % std::tuple_size_v<decltype(entries_)>;
    }

    std::array<Entry, 128> entries_{};
    std::size_t count_ = 0;
    std::uint64_t pass_ = 1;
};

/// Destinations that nothing more is tried on for now: others go on, and one peer's messages keep their
/// order. A pass that meets too many of them stops, and is the first of a sweep: the next one goes on where
/// it stopped, and still tries nothing on those that it met. Role holder only.
class BlockedSet {
  public:
    /// Refusals in one pass: that many posts in vain hold up nobody for long.
    static constexpr std::size_t most = PeerSet::most;

    /// In a sweep it may say so of some others, too; in the next one of different ones.
    [[nodiscard]] bool contains(PeerAddress peer) const noexcept {
        if (!any_) [[likely]]
            return false;
        return has_met(peer);
    }
    /// `first`: see first_of.
    [[gnu::noinline]] void insert(PeerAddress peer, void* first = nullptr) noexcept {
        met_.insert(peer, first);
        any_ = true;
    }
    /// What else waits for a peer that has its share waits behind that; nullptr: it has not, or an earlier
    /// pass has met it.
    [[nodiscard]] void* first_of(PeerAddress peer) const noexcept { return met_.first_of(peer); }
    /// Neither this pass nor an earlier one of its sweep has met any.
    [[nodiscard]] bool empty() const noexcept { return !any_; }
    /// Some are left out, which an earlier pass has met.
    [[nodiscard]] bool is_sweeping() const noexcept { return sweeping_; }
    /// The pass has met so many that it has to stop.
    [[nodiscard]] bool full() const noexcept { return met_.full(); }
    [[nodiscard]] bool half_full() const noexcept { return met_.half_full(); }
    void begin_pass() noexcept {
        if (!any_) [[likely]]
            return;
        met_.clear();
        any_ = sweeping_;
    }
    /// The next pass goes on where this one stopped.
    void go_on() noexcept {
        met_.for_each([this](PeerAddress peer) { earlier_.set(place(peer)); });
        sweeping_ = true;
    }
    void end_sweep() noexcept {
        if (sweeping_) earlier_.reset();
        sweeping_ = false;
        multiplier_ = multiplier_ * 6364136223846793005u + 1442695040888963406u;  // stays odd
    }

  private:
    /// So many that few of some thousand share a bit, and little enough to be forgotten again and again.
    static constexpr unsigned place_bits = 14;
    /// Not inlined, nor insert(): a pass would grow so large by it that g++ 12 no longer inlines take_run().
    [[gnu::noinline]] bool has_met(PeerAddress peer) const noexcept {
        return met_.contains(peer) || (sweeping_ && earlier_.test(place(peer)));
    }
    [[nodiscard]] std::size_t place(PeerAddress peer) const noexcept {
        return static_cast<std::size_t>(std::uint64_t{peer} * multiplier_ >> (64 - place_bits));
    }

    PeerSet met_;                                        // in this pass
    std::bitset<std::size_t{1} << place_bits> earlier_;  // in earlier ones of the sweep
    std::uint64_t multiplier_ = 0x9e37'79b9'7f4a'7c15;   // another one for each sweep
    bool sweeping_ = false, any_ = false;
};

[[nodiscard]] inline PeerAddress destination_of(const Submission& submission) noexcept {
    return submission.route->destination;
}
[[nodiscard]] inline PeerAddress destination_of(const OutMessage& message) noexcept {
    return message.destination;
}

/// What waits for peers that a sweep has met. There is none while nothing else waits. Role holder only.
template <class Node>
class Sweep {
  public:
    /// After a pass over `pending` that has stepped around `kept`: puts it back, or aside where the sweep is
    /// to go on behind it.
    void end_pass(PendingList<Node>& pending, PendingList<Node>& kept, BlockedSet& blocked) noexcept {
        if (blocked.empty()) [[likely]]
            return pending.prepend(kept);
        put_back(pending, kept, blocked);
    }
    /// Nothing is tried any more.
    void end(PendingList<Node>& pending) noexcept { pending.prepend(aside_); }

  private:
    /// Has `kept` by value, so that a pass need not have it in memory.
    [[gnu::noinline]] void put_back(PendingList<Node>& pending, PendingList<Node> kept,
                                    BlockedSet& blocked) noexcept {
        const bool stopped = blocked.full() && !pending.empty();
        if (!stopped && aside_.empty()) return pending.prepend(kept);
        PendingList<Node> waits_for_room;  // tried in each pass, as ever
        while (!kept.empty()) {
            Node& node = *kept.pop_front();
            (blocked.contains(destination_of(node)) ? aside_ : waits_for_room).push_back(node);
        }
        if (stopped) {
            blocked.go_on();
        } else {
            // Also where there is no room for more: beside a long transfer a sweep might never be through.
            blocked.end_sweep();
            pending.prepend(aside_);
        }
        pending.prepend(waits_for_room);
    }

    PendingList<Node> aside_;
};

}  // namespace railyard
