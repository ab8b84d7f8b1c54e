// Which messages have arrived already: one that was under way when its sender was replaced comes twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "common/recent_table.h"

namespace railyard {

/// Numbers as runs without a gap. Nearly growing ones cost next to nothing, and any others log(n) steps.
class NumberRuns {
  public:
    [[nodiscard]] bool contains(std::uint64_t number) const noexcept {
        const auto after = behind(number);
        return after != runs_.begin() && std::prev(after)->last >= number;
    }
    /// A number that is not there. False, and nothing changed: that would take more than capacity().
    bool add(std::uint64_t number) noexcept {
        const auto after = behind(number);
        const bool extends = after != runs_.begin() && std::prev(after)->last == number - 1;
        const bool precedes = after != runs_.end() && after->first - 1 == number;
        if (extends && precedes) {
            std::prev(after)->last = after->last;
            runs_.erase(after);
        } else if (extends) {
            std::prev(after)->last = number;
        } else if (precedes) {
            after->first = number;
        } else {
            if (runs_.size() == runs_.capacity()) return false;
            runs_.insert(after, {number, number});
        }
        return true;
    }
    /// Adds what lies between the two lowest runs; there must be two.
    void close_lowest_gap() noexcept {
        runs_[1].first = runs_[0].first;
        runs_.erase(runs_.begin());
    }
    /// The end of the lowest run; there must be one.
    [[nodiscard]] std::uint64_t lowest_last() const noexcept { return runs_.front().last; }
    [[nodiscard]] std::size_t size() const noexcept { return runs_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return runs_.capacity(); }
    /// Not below size().
    void set_capacity(std::size_t capacity) {
        std::vector<Run> moved;
        moved.reserve(capacity);
        moved.assign(runs_.begin(), runs_.end());
        runs_.swap(moved);
    }

  private:
    struct Run {
        std::uint64_t first, last;
    };
    using Runs = std::vector<Run>;
    /// The first run that begins behind `number`.
    [[nodiscard]] Runs::const_iterator behind(std::uint64_t number) const noexcept {
        if (runs_.empty() || runs_.back().first <= number) return runs_.end();  // as a rule
        return std::upper_bound(runs_.begin(), runs_.end(), number,
                                [](std::uint64_t wanted, const Run& run) { return wanted < run.first; });
    }
    [[nodiscard]] Runs::iterator behind(std::uint64_t number) noexcept {
        return runs_.begin() + (std::as_const(*this).behind(number) - runs_.cbegin());
    }

    Runs runs_;  // growing, and never one right behind another
};

/// Remembers every message of every sender, as runs of its numbers: one run, and about 160 bytes, for a
/// sender whose messages all arrive. One thread at a time.
class RecentMessages {
  public:
    /// In runs. A sender whose runs would take more has its oldest gap closed: what is missing there counts
    /// as received, and is not taken if it comes after all.
    struct Limits {
        std::size_t senders = 65'536;               ///< past it the one not heard of for longest is forgotten
        std::size_t of_sender = 1024;               ///< at most
        std::size_t granted = 32;                   ///< to every sender, whatever others take; a power of 2
        std::size_t shared = std::size_t{1} << 20;  ///< by all those who take more than that
    };
    RecentMessages() : RecentMessages(Limits{}) {}
    explicit RecentMessages(Limits limits) : limits_(limits), senders_(limits.senders) {}

    /// Counts as hearing of the sender.
    [[nodiscard]] bool contains(std::uint64_t nonce, std::uint64_t id) noexcept {
        const Sender* const sender = find(nonce);
        return sender && sender->runs.contains(id);
    }
    /// The same; nothing where that is not known for sure: the sender is not remembered, or a gap was closed.
    [[nodiscard]] std::optional<bool> has_come(std::uint64_t nonce, std::uint64_t id) noexcept {
        const Sender* const sender = find(nonce);
        if (!sender || (sender->closed_to != 0 && id <= sender->closed_to)) return std::nullopt;
        return sender->runs.contains(id);
    }
    /// For a message of that sender, which add() needs no memory for then. Allocates for a new one, and where
    /// gaps become more than ever before.
    void prepare(std::uint64_t nonce) {
        NumberRuns& runs = sender_of(nonce).runs;
        if (runs.size() == runs.capacity()) grow(runs);
    }
    /// A message that is not there. Allocates as prepare() does.
    void add(std::uint64_t nonce, std::uint64_t id, bool notification = false) {
        Sender* const sender = &sender_of(nonce);
        NumberRuns* const runs = &sender->runs;
        while (!runs->add(id)) {
            if (grow(*runs)) continue;
            runs->close_lowest_gap();
            sender->closed_to = runs->lowest_last();
            if (runs->contains(id)) break;
        }
        sender->notifications += notification ? 1 : 0;
        if (runs->capacity() > limits_.granted && runs->size() <= runs->capacity() / 4) shrink(*runs);
    }
    /// One came within another message of the sender's, which is there.
    void count_notification(std::uint64_t nonce) noexcept {
        if (Sender* const sender = find(nonce)) ++sender->notifications;
    }

    /// Of the sender; 0 for one that is not remembered.
    [[nodiscard]] std::uint64_t notifications(std::uint64_t nonce) const {
        const Sender* const sender = senders_.look(nonce);
        return sender ? sender->notifications : 0;
    }
    [[nodiscard]] std::size_t senders() const noexcept { return senders_.size(); }
    /// Runs that there is room for, with those who have more than is granted to everybody.
    [[nodiscard]] std::size_t shared() const noexcept { return shared_; }

  private:
    static constexpr std::size_t first_capacity = 2;

    struct Sender {
        NumberRuns runs;
        std::uint64_t notifications = 0;
        std::uint64_t closed_to = 0;  ///< there, or below, a gap was closed; 0: none was
    };

    Sender* find(std::uint64_t nonce) noexcept {
        if (!last_ || last_nonce_ != nonce) {
            last_ = senders_.find(nonce);
            last_nonce_ = nonce;
        }
        return last_;
    }
    /// New where it is not remembered.
    Sender& sender_of(std::uint64_t nonce) {
        Sender* const known = find(nonce);
        return known ? *known : add_sender(nonce);
    }
    Sender& add_sender(std::uint64_t nonce) {
        Sender fresh;
        fresh.runs.set_capacity(first_capacity);
        last_ = nullptr;
        for (const Sender& gone : senders_.add(nonce, std::move(fresh)))
            shared_ -= share_of(gone.runs.capacity());
        return *find(nonce);
    }
    [[nodiscard]] std::size_t share_of(std::size_t capacity) const noexcept {
        return capacity > limits_.granted ? capacity : 0;
    }
    bool grow(NumberRuns& runs) {
        const std::size_t before = runs.capacity(), after = 2 * before;
        if (after > limits_.of_sender) return false;
        if (shared_ - share_of(before) + share_of(after) > limits_.shared) return false;
        resize(runs, after);
        return true;
    }
    void shrink(NumberRuns& runs) noexcept {
        try {
            resize(runs, runs.capacity() / 2);
        } catch (const std::bad_alloc&) {
            // another time
        }
    }
    void resize(NumberRuns& runs, std::size_t capacity) {
        const std::size_t before = share_of(runs.capacity());
        runs.set_capacity(capacity);
        shared_ = shared_ - before + share_of(runs.capacity());
    }

    const Limits limits_;
    RecentTable<Sender> senders_;
    std::size_t shared_ = 0;
    std::uint64_t last_nonce_ = 0;
    Sender* last_ = nullptr;  ///< of last_nonce_
};

}  // namespace railyard
