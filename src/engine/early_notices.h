// The target's side of notifications that leave together with their data: each waits for the word that its
// data is in place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace railyard {

/// Brings together marks (EarlyMark), which say that the bytes of a WRITE are in place, and notifications,
/// in whatever order they come. Not for several threads at once.
class EarlyNotices {
  public:
    /// Of one writer, of each sort. Those who keep to their windows have fewer; the rest is for what failed
    /// transfers leave behind.
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
        std::uint32_t count = 0;  ///< notices that have found their marks since it was told last
    };

    struct Number {
        std::uint32_t number = 0;  ///< 0: all are given out
        std::uint8_t window = 0;   ///< marks that it may be ahead
    };
    /// That of the instance, which it keeps until it is closed.
    Number number(std::uint64_t instance, const std::string& agent);
    /// The instance sends nothing more with that number, if it is its own, and what has been sent may still
    /// be on its way: notices and marks of it find each other as before.
    void close(std::uint64_t instance, std::uint32_t number);
    /// Frees the number that was closed first, if any was; returns what has waited in vain.
    std::vector<Notice> free_closed();
    /// By number, less one; 0: retired.
    [[nodiscard]] std::vector<std::uint64_t> instances() const;
    /// Frees their numbers; returns what has waited in vain.
    std::vector<Notice> retire(std::span<const std::uint64_t> gone);
    /// Whose mark it is; 0: nobody's.
    [[nodiscard]] std::uint64_t instance_of(std::uint32_t mark) const noexcept;

    /// The bytes are in place: the notice that has waited for that, if it has come.
    std::optional<Notice> placed(std::uint32_t mark);
    /// The notice has come, with a mark of somebody's: true where its bytes are in place, and nothing is
    /// kept.
    bool is_placed(std::uint32_t mark);
    /// After that; false: too many of its writer's wait.
    bool keep(std::uint32_t mark, Notice notice);
    /// Its writer asks before it carries out a WRITE once more: true where the bytes are in place, as the
    /// mark has come, or the notice (`taken`) and the mark with it. Else the mark says nothing from then on,
    /// should it still come, and its notice waits for `next`, which comes with the same bytes. Both are of
    /// one writer. Throws Error where there is no sense in it, or no room.
    bool is_in_place(std::uint32_t mark, std::uint32_t next, bool taken);

    /// Somebody is to be told.
    [[nodiscard]] bool owes_credit() const noexcept { return owing_ != 0; }
    /// Who has used half of its window since it was told last.
    std::vector<Credit> take_credits();

  private:
    struct Writer {
        std::uint64_t instance = 0;
        std::string agent;
        std::uint16_t marks = 0, notices = 0;  ///< that are alone
        std::uint16_t replaced = 0;            ///< marks
        std::uint32_t matched = 0;             ///< since it was told last
        std::uint8_t window = 0;
        std::uint64_t closed = 0;  ///< the how many'th of those that were
    };
    /// nullptr: it is nobody's.
    Writer* writer_of(std::uint32_t mark) noexcept;
    /// The mark that a notice with this one waits for.
    [[nodiscard]] std::uint32_t latest(std::uint32_t mark) const noexcept;
    void count_match(Writer& writer) noexcept;
    template <class IsGone>
    std::vector<Notice> forget(const IsGone& is_gone);

    std::vector<Writer> writers_;  ///< by number, less one
    std::unordered_set<std::uint32_t> marks_;
    std::unordered_map<std::uint32_t, Notice> notices_;
    std::unordered_map<std::uint32_t, std::uint32_t> replaced_;  ///< by what
    std::uint64_t closed_ = 0;                                   ///< numbers that were
    std::size_t owing_ = 0;                                      ///< writers that are to be told
};

}  // namespace railyard
