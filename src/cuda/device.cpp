#include "cuda/device.h"

#include <algorithm>
#include <cctype>

#include "cuda/driver.h"

namespace railyard::cuda {
namespace {

/// An attribute that the driver does not know reads 0.
int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    return driver.device_get_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

WritesOrdering ordering_of(int value) {
    constexpr int all_devices = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
    constexpr int owner = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    if (value >= all_devices) return WritesOrdering::all_devices;
    if (value >= owner) return WritesOrdering::owner;
    return WritesOrdering::none;
}

std::string pci_of(const Driver& driver, CUdevice handle) {
    char text[32] = {};
    check(driver, driver.device_get_pci_bus_id(text, sizeof(text), handle), "cuDeviceGetPCIBusId");
    std::string pci = text;
    std::transform(pci.begin(), pci.end(), pci.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return pci;
}

Device describe_device(const Driver& driver, int ordinal) {
    CUdevice handle = 0;
    check(driver, driver.device_get(&handle, ordinal), "cuDeviceGet");
    auto has = [&](CUdevice_attribute which) { return attribute(driver, handle, which) != 0; };
    Device device;
    device.ordinal = ordinal;
    char name[128] = {};
    check(driver, driver.device_get_name(name, sizeof(name), handle), "cuDeviceGetName");
    device.name = name;
    device.pci = pci_of(driver, handle);
    std::size_t memory = 0;
    check(driver, driver.device_total_mem(&memory, handle), "cuDeviceTotalMem");
    device.memory = memory;
    device.gpu_direct_rdma = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
    device.vmm_gpu_direct_rdma = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    device.dma_buf = driver.mem_get_handle_for_address_range && has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
    device.unified_addressing = has(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    device.stream_values = driver.stream_write_value64 && driver.stream_wait_value64 &&
                           has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
    const int options = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
    device.host_flush =
        driver.flush_gpu_direct_rdma_writes && (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    device.stream_flush = device.stream_values && (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS) &&
                          has(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
    device.writes_ordering =
        ordering_of(attribute(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING));
    return device;
}

}  // namespace

std::vector<Device> list_devices(const Driver& driver) {
    int count = 0;
    check(driver, driver.device_get_count(&count), "cuDeviceGetCount");
    std::vector<Device> devices;
    for (int ordinal = 0; ordinal < count; ++ordinal)
        devices.push_back(describe_device(driver, ordinal));
    return devices;
}

}  // namespace railyard::cuda
