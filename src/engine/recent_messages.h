// Which messages have arrived already: one that was under way when its sender was replaced comes twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace railyard {

/// Remembers the last few thousand in a table of fixed size. One thread at a time.
class RecentMessages {
  public:
    RecentMessages() : sets_(std::make_unique<std::array<Set, set_count>>()) {}

    [[nodiscard]] bool contains(std::uint64_t nonce, std::uint64_t id) const noexcept {
        const std::uint64_t mark = mix(nonce, id);
        for (const std::uint64_t entry : set_of(mark).marks) {
            if (entry == mark) return true;
        }
        return false;
    }
    void add(std::uint64_t nonce, std::uint64_t id) noexcept {
        const std::uint64_t mark = mix(nonce, id);
        Set& set = set_of(mark);
        set.marks[set.oldest++ % ways] = mark;
    }

  private:
    static constexpr std::size_t set_count = 1024, ways = 7;
    struct Set {
        std::array<std::uint64_t, ways> marks{};
        std::uint64_t oldest = 0;
    };
    /// Never 0, which is an empty place.
    static std::uint64_t mix(std::uint64_t nonce, std::uint64_t id) noexcept {
        std::uint64_t x = nonce ^ (id * 0x9e3779b97f4a7c15);
        x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
        x ^= x >> 32;
        return x | 1;
    }
    [[nodiscard]] Set& set_of(std::uint64_t mark) const noexcept { return (*sets_)[(mark >> 1) % set_count]; }

    std::unique_ptr<std::array<Set, set_count>> sets_;
};

}  // namespace railyard
