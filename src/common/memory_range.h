// A range of memory and where it lies.
#pragma once

#include <cstdint>
#include <memory>

namespace railyard {

enum class MemoryType : std::uint8_t { host, device };

/// What a rail is asked to register.
struct MemoryRange {
    std::uint64_t address = 0;
    std::uint64_t length = 0;  ///< bytes, > 0
    bool writable = true;
    int gpu = -1;                   ///< CUDA ordinal whose memory it is; -1: host memory
    int dmabuf = -1;                ///< descriptor that holds the range, where there is one; the caller's
    std::uint64_t dmabuf_base = 0;  ///< the address that the descriptor's first byte stands for
    bool dmabuf_alone = false;      ///< what refuses the descriptor is not asked for the address instead
    std::uint64_t key = 0;          ///< wished for, where keys are the rail's to choose; 0: any
    /// Of memory of ours: kept until libfabric cannot touch it any more, which may be after the rail.
    std::shared_ptr<const void> owner{};
};

}  // namespace railyard
