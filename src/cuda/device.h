// The GPUs of this process, as the driver numbers them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace railyard::cuda {

struct Driver;

/// Whose reads find what a NIC wrote to the GPU before the work that reads was started.
enum class WritesOrdering : std::uint8_t { none, owner, all_devices };

struct Device {
    int ordinal = -1;  ///< as the host program sees it: after CUDA_VISIBLE_DEVICES
    std::string name;
    std::string pci;                   ///< "0000:53:00.0", lower case; topology's parse_pci_address reads it
    std::uint64_t memory = 0;          ///< bytes
    bool gpu_direct_rdma = false;      ///< NICs can reach its memory
    bool vmm_gpu_direct_rdma = false;  ///< also that of cuMemCreate
    bool dma_buf = false;
    bool unified_addressing = false;
    bool stream_values = false;  ///< 64-bit values that streams write and wait for
    bool host_flush = false;     ///< cuFlushGPUDirectRDMAWrites works
    bool stream_flush = false;   ///< a stream's wait can flush
    WritesOrdering writes_ordering = WritesOrdering::none;
};

/// By ordinal. Needs and changes no current context. Throws Error{backend}.
[[nodiscard]] std::vector<Device> list_devices(const Driver& driver);

}  // namespace railyard::cuda
