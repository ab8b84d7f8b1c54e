// The memory of one side: page-aligned, zeroed, present before anything is timed.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "failure.h"

namespace railyard::bench {

class Memory {
  public:
    explicit Memory(std::size_t length) : length_(length) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
        start_ = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (start_ == MAP_FAILED) {
            throw Failure("cannot map " + std::to_string(length) + " bytes: " + std::strerror(errno) +
                          "; lower --memory");
        }
    }
    ~Memory() { munmap(start_, length_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] std::span<std::byte> bytes() const noexcept {
        return {static_cast<std::byte*>(start_), length_};
    }
    [[nodiscard]] std::uint64_t base() const noexcept { return reinterpret_cast<std::uint64_t>(start_); }

  private:
    void* start_ = nullptr;
    std::size_t length_ = 0;
};

}  // namespace railyard::bench
