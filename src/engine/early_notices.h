// The target's side of notifications that leave together with their data: each waits for the word that its
// data is in place.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/early_window.h"

namespace railyard {

/// Brings together marks (EarlyMark), which say that the bytes of an operation are in place, and the
/// notifications of WRITEs of one operation or several, in whatever order they come. Not for several threads
/// at once.
class EarlyNotices {
  public:
    /// Of one writer, of each sort. Those who keep to their windows have fewer, with what failed transfers
    /// leave behind.
    static constexpr std::uint16_t most_unmatched = 1024;

    struct Notice {
        std::string agent;
        std::string message;
    };

    /// What a writer is to be told.
    struct Credit {
        std::string agent;
        std::uint64_t instance = 0;
        std::uint32_t number = 0;
        std::uint32_t count = 0;  ///< marks that have found their notices since it was told last
    };
    /// So that none needs memory to be taken, or given back.
    using Credits = std::list<Credit>;

    struct Number {
        std::uint32_t number = 0;  ///< 0: all are given out
        std::uint8_t window = 0;   ///< marks that it may be ahead
    };
    /// That of the instance, which it keeps until it is closed; none for one that has been cut off.
    Number number(std::uint64_t instance);
    /// Closed numbers are nobody else's for so long: a mark and its notice may both lie unread. The longer
    /// where a notice is kept for its mark, until that has come (one whose operation has failed waits in
    /// vain), and where it was not the instance that has closed it.
    static constexpr std::uint64_t rest_ns = 10'000'000'000, longest_rest_ns = 360 * rest_ns;
    /// The instance sends nothing more with that number, if it is its own, and what has been sent may still
    /// be on its way: notices and marks of it find each other as before.
    void close(std::uint64_t instance, std::uint32_t number, std::uint64_t now_ns);
    /// Frees the number that was closed first of those that have rested, if any has; returns what has waited
    /// in vain.
    std::vector<Notice> free_closed(std::uint64_t now_ns);
    /// A new one would have a narrow window, or no number.
    [[nodiscard]] bool is_short() const noexcept {
        return next_window() != EarlyMark::favoured_window || writers_.size() == EarlyMark::most_writers;
    }
    /// Who has one that is not closed, in order.
    [[nodiscard]] std::vector<std::uint64_t> instances() const;
    /// In order. Closes the numbers of those, whom nobody here knows any more. They may live: one that goes
    /// on with its number has it back, and what it may be ahead is no other's for longest_rest_ns.
    void close_lost(std::span<const std::uint64_t> lost, std::uint64_t now_ns) noexcept;
    /// Whose mark it is; 0: nobody's.
    [[nodiscard]] std::uint64_t instance_of(std::uint32_t mark) const noexcept;

    /// That mark would be one more of its writer's than is kept: it pays no heed to its window.
    [[nodiscard]] bool is_one_too_many(std::uint32_t mark) noexcept;
    /// Nothing counts any more that comes with a number like that mark's, and its instance gets no other one.
    /// Returns what has waited in vain. Throws std::bad_alloc, with nothing done.
    std::vector<Notice> cut_off(std::uint32_t mark);

    /// The bytes of an operation are in place: the notice that has waited for that alone, if there is one.
    std::optional<Notice> placed(std::uint32_t mark);
    enum class Taken : std::uint8_t {
        in_place,  ///< all of its bytes are, and nothing is kept
        kept,      ///< some are not
        refused    ///< too many of its writer's wait, or it is not the only one with such marks
    };
    /// The notice of a WRITE with those marks has come. It is moved from where it is kept. One that is not
    /// `wanted` takes its marks, so that they are nobody else's, and nobody hears of it.
    Taken take(EarlyMarks marks, Notice& notice, bool wanted = true);
    /// Its writer asks before it carries out an operation once more: true where the bytes are in place, as
    /// the mark has come, or the notice (`taken`) and the mark with it. Else the mark says nothing from then
    /// on, should it still come, and its notice waits for `next`, which comes with the same bytes. Both are
    /// of one writer. Throws Error where there is no sense in it, or no room.
    bool is_in_place(std::uint32_t mark, std::uint32_t next, bool taken);

    /// Somebody is to be told.
    [[nodiscard]] bool owes_credit() const noexcept { return !owed_.empty(); }
    /// Those who have used half of their windows since they were told last, for whoever takes them to tell.
    [[nodiscard]] Credits take_credits() noexcept;
    /// They have not been told.
    void give_back(Credits credits) noexcept;
    /// Nobody is known that could be told of it: it is owed again with the next that is matched, or by owe().
    void put_off(const Credit& credit) noexcept;
    /// That instance is known again.
    void owe(const std::string& agent, std::uint64_t instance) noexcept;

  private:
    /// Small, because each peer has one.
    struct Writer {
        std::uint64_t instance = 0;
        std::uint32_t matched = 0;             ///< marks, since it was told last
        std::uint32_t closed = 0;              ///< since when, in ticks; 0: it is not
        std::uint16_t marks = 0, notices = 0;  ///< that are alone
        std::uint16_t replaced = 0;            ///< marks
        std::uint8_t window = 0;               ///< 0, of an instance: it has been cut off
        bool owed : 1 = false;                 ///< it is to be told, and nobody has taken that
        bool lost : 1 = false;                 ///< closed by us: its instance may go on
    };
    static_assert(sizeof(Writer) == 24);
    /// A notice, by the first of its operations' marks.
    struct Waiting {
        Notice notice;
        std::uint32_t operations = 0;
        bool wanted = true;         ///< else it has no text
        std::uint64_t missing = 0;  ///< operation i: bit i
    };
    using MarkPairs = std::unordered_map<std::uint32_t, std::uint32_t>;
    static std::uint32_t follow(const MarkPairs& pairs, std::uint32_t mark) noexcept;
    using WaitingNotices = std::map<std::uint32_t, Waiting>;
    /// Such that those of all who may still write are not more than most_unread; 0: none is.
    [[nodiscard]] std::uint8_t next_window() const noexcept;
    /// nullptr: it is nobody's that counts.
    Writer* writer_of(std::uint32_t mark) noexcept;
    /// The same of what its writer has sent now: it is not lost.
    Writer* writer_heard(std::uint32_t mark) noexcept;
    /// The mark that says of an operation, first known by this one, that its bytes are in place.
    [[nodiscard]] std::uint32_t latest(std::uint32_t mark) const noexcept { return follow(replaced_, mark); }
    /// The other way round.
    [[nodiscard]] std::uint32_t original(std::uint32_t mark) const noexcept {
        return follow(replaces_, mark);
    }
    /// Who has or had an operation with that original mark; end(): nobody.
    WaitingNotices::iterator with_operation(std::uint32_t mark) noexcept;
    /// The same, if it is what it waits for.
    WaitingNotices::iterator awaiting(std::uint32_t mark) noexcept;
    void count_matches(Writer& writer, std::uint32_t marks, const std::string& agent) noexcept;
    /// Once half of its window was looked at.
    void owe(Writer& writer, const std::string& agent) noexcept;
    template <class IsGone>
    std::vector<Notice> forget(const IsGone& is_gone);

    std::vector<Writer> writers_;  ///< by number, less one
    std::unordered_set<std::uint32_t> marks_;
    WaitingNotices notices_;
    MarkPairs replaced_, replaces_;  ///< by what; what by that
    Credits owed_;                   ///< who is to be told; counted when they are taken
};

}  // namespace railyard
