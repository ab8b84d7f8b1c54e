// Memory of a GPU: the NIC reaches it through the driver's alias, never through the address.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "control.h"
#include "side.h"

namespace {

constexpr std::size_t device_size = 1 << 16;

/// A "GPU": addresses that fault when touched, and the same bytes elsewhere.
struct Gpu {
    int memory = memfd_create("gpu", MFD_CLOEXEC);
    char* address = nullptr;
    char* alias = nullptr;
    Gpu() {
        if (ftruncate(memory, device_size) != 0) return;
        address = static_cast<char*>(mmap(nullptr, device_size, PROT_NONE, MAP_SHARED, memory, 0));
        alias = static_cast<char*>(mmap(nullptr, device_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
    }
    ~Gpu() {
        munmap(address, device_size);
        munmap(alias, device_size);
        close(memory);
    }
};

Gpu& gpu() {
    static Gpu instance;
    return instance;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* fakecuda_alias(unsigned long long address,
                                                                       std::size_t length) {
    const auto base = reinterpret_cast<unsigned long long>(gpu().address);
    if (address < base || address + length > base + device_size) return nullptr;
    return gpu().alias + (address - base);
}

namespace simefa::test {
namespace {

SideOptions with_device_memory(const std::string& fabric) {
    SideOptions options;
    options.fabric = fabric;
    options.more_caps = FI_HMEM;
    return options;
}

class DeviceMemory : public testing::TestWithParam<const char*> {};

TEST_P(DeviceMemory, IsWrittenAndReadWithoutTouchingItsAddress) {
    Pair pair(with_device_memory(GetParam()));
    fid_mr* region = pair.right.add_region(gpu().address, device_size, Side::all_access, FI_HMEM_CUDA);
    const auto remote = reinterpret_cast<std::uint64_t>(gpu().address);
    ASSERT_EQ(pair.left.write(pair.source.data(), 5000, pair.source_region, pair.to_right, remote + 64,
                              fi_mr_key(region)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(std::memcmp(gpu().alias + 64, pair.source.data(), 5000), 0);
    std::vector<std::uint8_t> back(5000);
    fid_mr* local = pair.left.add_region(back.data(), back.size());
    ASSERT_EQ(pair.left.read(back.data(), 5000, local, pair.to_right, remote + 64, fi_mr_key(region)), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(std::memcmp(back.data(), pair.source.data(), 5000), 0);
}

TEST_P(DeviceMemory, IsASource) {
    Pair pair(with_device_memory(GetParam()));
    std::memset(gpu().alias, 0x5a, device_size);
    fid_mr* region = pair.left.add_region(gpu().address, device_size, Side::all_access, FI_HMEM_CUDA);
    ASSERT_EQ(pair.left.write(gpu().address + 100, 1000, region, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(pair.target[999], 0x5a);
    EXPECT_EQ(pair.target[1000], 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DeviceMemory, testing::Values("efa-direct", "efa"), [](const auto& value) {
    return std::string(value.param) == "efa" ? "efa" : "efa_direct";
});

TEST(DeviceMemoryRegistration, UnknownAddressesAreRefused) {
    Side side(with_device_memory("efa-direct"));
    char host[64];
    EXPECT_THROW(side.add_region(host, sizeof(host), Side::all_access, FI_HMEM_CUDA), std::runtime_error);
    EXPECT_THROW(side.add_region(gpu().address, device_size, Side::all_access, FI_HMEM_ZE),
                 std::runtime_error);
}

TEST(DeviceMemoryRegistration, NeedsADomainThatAskedForIt) {
    Side side;
    EXPECT_THROW(side.add_region(gpu().address, device_size, Side::all_access, FI_HMEM_CUDA),
                 std::runtime_error);
}

TEST(DeviceMemoryOptions, AreSettledWhenTheEndpointIsEnabled) {
    SideOptions options = with_device_memory("efa-direct");
    options.enable = false;
    Side side(options);
    auto set = [&](int value) {
        return fi_setopt(&side.endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, sizeof value);
    };
    EXPECT_EQ(set(FI_HMEM_P2P_DISABLED), -FI_EOPNOTSUPP);
    EXPECT_EQ(set(17), -FI_EINVAL);
    EXPECT_EQ(set(FI_HMEM_P2P_REQUIRED), 0);
    side.enable();
    EXPECT_EQ(set(FI_HMEM_P2P_ENABLED), -FI_EOPBADSTATE);
    int value = -1;
    std::size_t length = sizeof value;
    EXPECT_EQ(fi_getopt(&side.endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, &length), 0);
    EXPECT_EQ(value, FI_HMEM_P2P_REQUIRED);
}

TEST(DeviceMemoryRegistration, DmaBuf) {
    struct {
        int fd;
        std::uint64_t offset;
        std::size_t length;
        void* base;
    } buffer{gpu().memory, 4096, 8192, gpu().address};
    Pair pair(with_device_memory("efa-direct"));
    fi_mr_attr attr{};
    attr.mr_iov = reinterpret_cast<const iovec*>(&buffer);
    attr.iov_count = 1;
    attr.access = Side::all_access;
    attr.iface = FI_HMEM_CUDA;
    fid_mr* region = nullptr;
    constexpr std::uint64_t dmabuf_flag = 1ULL << 40;
    ASSERT_EQ(fi_mr_regattr(pair.right.domain, &attr, dmabuf_flag, &region), 0);
    ASSERT_EQ(pair.left.write(pair.source.data(), 100, pair.source_region, pair.to_right,
                              reinterpret_cast<std::uint64_t>(gpu().address) + 4096, fi_mr_key(region)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(std::memcmp(gpu().alias + 4096, pair.source.data(), 100), 0);
    EXPECT_EQ(fi_close(&region->fid), 0);
    buffer.offset = device_size - 4096;
    EXPECT_EQ(fi_mr_regattr(pair.right.domain, &attr, dmabuf_flag, &region), -FI_EINVAL) << "past its end";
    buffer = {-1, 0, 4096, gpu().address};
    EXPECT_EQ(fi_mr_regattr(pair.right.domain, &attr, dmabuf_flag, &region), -FI_EBADF);
}

}  // namespace
}  // namespace simefa::test
