// Time and chance of the model.
#pragma once

#include <time.h>

#include <cstdint>

namespace simefa {

/// Nanoseconds of CLOCK_MONOTONIC: the same in all processes of the machine.
[[nodiscard]] inline std::uint64_t now_ns() noexcept {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// splitmix64: small, and the same on every machine for one seed.
class Random {
  public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t next() noexcept {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        return z ^ z >> 31;
    }
    /// Uniform in [0, bound); 0 for bound 0.
    std::uint64_t below(std::uint64_t bound) noexcept { return bound ? next() % bound : 0; }

  private:
    std::uint64_t state_;
};

}  // namespace simefa
