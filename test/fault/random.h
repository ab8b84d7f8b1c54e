// Numbers that are the same on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace railyard::fault {

class Random {
  public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t next() noexcept {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        return z ^ z >> 31;
    }
    /// In [low, high].
    int between(int low, int high) noexcept {
        const auto span = static_cast<std::uint64_t>(high - low + 1);
        return low + static_cast<int>(next() % span);
    }
    bool percent(int share) noexcept { return between(0, 99) < share; }
    template <class T, std::size_t n>
    const T& one_of(const T (&choices)[n]) noexcept {
        return choices[next() % n];
    }

  private:
    std::uint64_t state_;
};

}  // namespace railyard::fault
