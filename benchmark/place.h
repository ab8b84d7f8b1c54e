// Where the memory of one side lies.
#pragma once

#include <cstdint>
#include <string>

namespace railyard::bench {

struct Place {
    bool vram = false;  ///< memory of a GPU, else the host's
    unsigned gpu = 0;   ///< the driver's ordinal, after CUDA_VISIBLE_DEVICES

    /// As in host::Range.
    [[nodiscard]] std::uint64_t device() const noexcept { return vram ? std::uint64_t{gpu} + 1 : 0; }
    [[nodiscard]] const char* kind() const noexcept { return vram ? "vram" : "dram"; }
    /// "dram", "vram of GPU 3".
    [[nodiscard]] std::string text() const {
        return vram ? "vram of GPU " + std::to_string(gpu) : std::string("dram");
    }
};

}  // namespace railyard::bench
