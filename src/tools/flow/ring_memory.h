// The memory of a ring of grains: one mapping, every grain at the start of a page.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "tools/flow/failure.h"

namespace railyard::tools::flow {

class RingMemory {
  public:
    RingMemory(std::uint32_t grains, std::uint64_t grain_size) : grains_(grains), grain_size_(grain_size) {
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        stride_ = (grain_size + page - 1) / page * page;
        void* const mapped =
            mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) {
            throw Failure("cannot map " + std::to_string(size()) + " bytes (" + std::strerror(errno) +
                          "): lower --ring or --grain-size");
        }
        memory_ = static_cast<std::byte*>(mapped);
    }
    ~RingMemory() { munmap(memory_, size()); }
    RingMemory(const RingMemory&) = delete;
    RingMemory& operator=(const RingMemory&) = delete;

    [[nodiscard]] std::byte* grain(std::uint32_t index) const noexcept { return memory_ + index * stride_; }
    [[nodiscard]] std::uint32_t grains() const noexcept { return grains_; }
    [[nodiscard]] std::uint64_t grain_size() const noexcept { return grain_size_; }

  private:
    [[nodiscard]] std::size_t size() const noexcept { return grains_ * stride_; }

    std::uint32_t grains_;
    std::uint64_t grain_size_;
    std::uint64_t stride_ = 0;
    std::byte* memory_ = nullptr;
};

}  // namespace railyard::tools::flow
