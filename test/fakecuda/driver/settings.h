// The environment of the fake driver, read once by cuInit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fakecuda {

struct DeviceDescription {
    unsigned pci_domain = 0, bus = 0, device = 0;
    /// The topmost PCI bridge above it, below the host bridge, as fakecuda_dmabuf_window says it; 0: none.
    unsigned long long bridge = 0;
};

struct Settings {
    bool guard = true;          ///< FAKECUDA_GUARD: device addresses fault when a CPU touches them
    bool late = false;          ///< FAKECUDA_LATE: what NICs write is visible to the GPU after a flush only
    unsigned long seed = 1;     ///< FAKECUDA_SEED, of the random pauses
    unsigned delay_us = 0;      ///< FAKECUDA_DELAY_US: longest pause before each operation on a stream
    int writes_ordering = 100;  ///< FAKECUDA_WRITES_ORDERING; 0 in the late-visible model
    int flush_options = 1;      ///< FAKECUDA_FLUSH_OPTIONS: 1 host, 2 stream operations
    bool gpu_direct = true;     ///< FAKECUDA_GPU_DIRECT: GPU_DIRECT_RDMA_SUPPORTED
    bool dmabuf = true;         ///< FAKECUDA_DMABUF: DMA_BUF_SUPPORTED
    bool c2c = false;           ///< FAKECUDA_C2C: dmabufs are of one of two windows, as on GB200
    std::size_t memory = 0;     ///< FAKECUDA_MEMORY_MIB, in bytes; of each device
    std::string fail;           ///< FAKECUDA_FAIL: NAME:NTH=ERROR, comma-separated; see fakecuda_fail
    std::vector<DeviceDescription> devices;  ///< those visible, in the order of CUDA_VISIBLE_DEVICES
};

/// Devices are the NVIDIA display and 3D controllers of the hwloc XML file that HWLOC_XMLFILE names, in bus
/// order, or FAKECUDA_DEVICES of them at invented addresses.
Settings read_settings();

/// What CUDA_VISIBLE_DEVICES leaves of `count` devices, by ordinals: everything up to the first that is none.
/// nullptr: all.
std::vector<std::size_t> visible_devices(const char* list, std::size_t count);

}  // namespace fakecuda
