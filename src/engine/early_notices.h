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
    /// Of one writer, of either sort. A target that has not looked for a while finds as many notices as it
    /// has buffers for messages, and then their marks, or the other way round; the rest is for what failed
    /// transfers leave behind.
    static constexpr std::uint16_t most_unmatched = 1024;

    struct Notice {
        std::string agent;
        std::string message;
    };

    /// The number of that instance, which it keeps; 0: all are given out.
    std::uint32_t number(std::uint64_t instance);
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

  private:
    struct Writer {
        std::uint64_t instance = 0;
        std::uint16_t marks = 0, notices = 0;  ///< that are alone
    };
    /// nullptr: it is nobody's.
    Writer* writer_of(std::uint32_t mark) noexcept;

    std::vector<Writer> writers_;  ///< by number, less one
    std::unordered_set<std::uint32_t> marks_;
    std::unordered_map<std::uint32_t, Notice> notices_;
};

}  // namespace railyard
