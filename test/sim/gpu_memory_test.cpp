// GPU memory on the rails of a simulated p5.48xlarge, beside the fake CUDA driver: what is asked of the
// provider, what it refuses, and bytes that go from GPU to GPU without the CPU's touching them (its addresses
// fault).
#include <rdma/fi_endpoint.h>

#include <random>

#include "cuda/dmabuf.h"
#include "fabric/memory_region.h"
#include "few_files.h"
#include "simulated_machine.h"
#include "two_rails.h"
#include "unit/cuda/on_fake_driver.h"

namespace railyard::test {
namespace {

using cuda::error_of;
using cuda::fake;

constexpr const char* nic = "rdmap79s0";
constexpr const char* other_nic = "rdmap80s0";

/// What is under a rail.
struct Opened {
    explicit Opened(std::shared_ptr<const fabric::Device> device)
        : domain(std::move(device), "rail7"),
          queue(domain, 64, false),
          addresses(domain),
          endpoint(domain, queue, addresses) {}
    /// -1: the option is not there.
    template <class T>
    [[nodiscard]] int option(int name) const {
        T value{};
        std::size_t length = sizeof(value);
        const int rc = fi_getopt(endpoint.handle(), FI_OPT_ENDPOINT, name, &value, &length);
        return rc == 0 ? static_cast<int>(value) : -1;
    }
    fabric::Domain domain;
    fabric::CompletionQueue queue;
    fabric::AddressVector addresses;
    fabric::Endpoint endpoint;
};

constexpr int cuda_api_permitted = 10, shared_memory_permitted = 11;  // names that libfabric 1.18 has

class GpuMemory : public cuda::OnFakeDriver, public testing::WithParamInterface<const char*> {
  protected:
    [[nodiscard]] std::string family() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, GpuMemory, testing::Values("efa-direct", "efa"), [](const auto& value) {
    return std::string(value.param) == "efa" ? "efa" : "efa_direct";
});

TEST_P(GpuMemory, IsAskedForOnDemandOnly) {
    EXPECT_FALSE(device_of(family(), nic, false)->caps.gpu_memory);
    EXPECT_TRUE(device_of(family(), nic)->caps.gpu_memory);
    const auto devices = fabric::discover(family(), {}, true);
    EXPECT_EQ(devices.size(), 32u);
    for (const fabric::Device& device : devices)
        EXPECT_TRUE(device.caps.gpu_memory) << device.name;
}

TEST_P(GpuMemory, ADeviceWithoutItIsTakenAsItIsAndInItsPlace) {
    const Disturbance old("gpu_memory=off", {"*", other_nic});
    const auto devices = fabric::discover(family(), {}, true);
    ASSERT_EQ(devices.size(), 32u);
    for (const fabric::Device& device : devices)
        EXPECT_EQ(device.caps.gpu_memory, device.name != other_nic) << device.name;
    EXPECT_EQ(devices[1].name, other_nic);
}

TEST_P(GpuMemory, TheProviderIsToKeepTheCpuAndCudaAway) {
    const Opened with(device_of(family(), nic));
    EXPECT_EQ(with.option<int>(FI_OPT_FI_HMEM_P2P), FI_HMEM_P2P_REQUIRED);
    EXPECT_EQ(with.option<bool>(cuda_api_permitted), 0);
    EXPECT_EQ(with.option<bool>(shared_memory_permitted), 0);
    EXPECT_TRUE(with.endpoint.reaches_gpu_memory());
    const Opened without(device_of(family(), nic, false));
    EXPECT_EQ(without.option<int>(FI_OPT_FI_HMEM_P2P), FI_HMEM_P2P_ENABLED);
    EXPECT_EQ(without.option<bool>(cuda_api_permitted), 1);
    EXPECT_EQ(without.option<bool>(shared_memory_permitted), family() == "efa" ? 0 : 1);
    EXPECT_FALSE(without.endpoint.reaches_gpu_memory());
}

TEST_P(GpuMemory, ARailThatCannotGoPeerToPeerDoesNotReachIt) {
    const Disturbance refused("gpu_peer_to_peer=off");
    const cuda::DeviceBuffer buffer(context(), 4096);
    const Opened rail(device_of(family(), nic));
    // efa-direct tells when memory is registered, by its key alone.
    const bool told = family() == "efa";
    EXPECT_EQ(rail.endpoint.reaches_gpu_memory(), !told);
    EXPECT_EQ(rail.option<int>(FI_OPT_FI_HMEM_P2P), told ? FI_HMEM_P2P_ENABLED : FI_HMEM_P2P_REQUIRED);
    const auto [status, text] = error_of([&] {
        const fabric::MemoryRegion region(rail.domain, rail.endpoint,
                                          {.address = buffer.address(), .length = 4096, .gpu = 0});
    });
    EXPECT_EQ(status, Status::not_supported);
    EXPECT_CONTAINS(text, "rail7");
    EXPECT_CONTAINS(text, "GPU 0");
    EXPECT_CONTAINS(text, "vram_staging");
    if (told) return;
    EXPECT_CONTAINS(text, "no peer-to-peer");
    EXPECT_CONTAINS(text, "nvidia-peermem");
    const std::vector<char> host(4096);
    EXPECT_NO_THROW(fabric::MemoryRegion(
        rail.domain, rail.endpoint,
        {.address = reinterpret_cast<std::uint64_t>(host.data()), .length = host.size()}));
}

TEST_P(GpuMemory, ARefusalNamesTheGpuAndWhatToDo) {
    const Disturbance refused("gpu_address=off");
    const cuda::DeviceBuffer buffer(context(3), 4096);
    const Opened rail(device_of(family(), nic));
    const auto [status, text] = error_of([&] {
        const fabric::MemoryRegion region(rail.domain, rail.endpoint,
                                          {.address = buffer.address(), .length = 4096, .gpu = 3});
    });
    EXPECT_EQ(status, Status::backend);
    for (const char* part : {"rail7", "GPU 3", "nvidia-peermem", "dmabuf", "vram_staging=always"})
        EXPECT_CONTAINS(text, part);
}

TEST_P(GpuMemory, IsNotTakenForHostMemory) {
    const cuda::DeviceBuffer buffer(context(), 4096);
    const Opened rail(device_of(family(), nic));
    const std::vector<char> host(4096);
    const MemoryRange lie{
        .address = reinterpret_cast<std::uint64_t>(host.data()), .length = host.size(), .gpu = 0};
    EXPECT_THROW(fabric::MemoryRegion(rail.domain, rail.endpoint, lie), Error);
}

/// GPU memory with a pattern, as the GPU sees it.
class Filled {
  public:
    Filled(cuda::ContextPtr context, std::size_t bytes, unsigned seed)
        : size(bytes), gpu(context->ordinal()), buffer_(std::move(context), bytes) {
        std::mt19937 random(seed);
        std::vector<std::uint8_t> pattern(bytes);
        for (std::uint8_t& byte : pattern)
            byte = static_cast<std::uint8_t>(random());
        EXPECT_EQ(fake().gpu_write(address(), pattern.data(), bytes), 0u);
    }
    [[nodiscard]] std::uint64_t address() const { return buffer_.address(); }
    [[nodiscard]] MemoryRange range() const {
        return {.address = address(), .length = size, .writable = true, .gpu = gpu};
    }
    [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t offset, std::size_t length) const {
        std::vector<std::uint8_t> bytes(length);
        EXPECT_EQ(fake().gpu_read(address() + offset, bytes.data(), length), 0u);
        return bytes;
    }
    const std::size_t size;
    const int gpu;

  private:
    cuda::DeviceBuffer buffer_;
};

TEST_P(GpuMemory, GoesFromGpuToGpuWithoutTheCpu) {
    constexpr std::size_t size = 3'000'000, length = 2'345'678, from = 1001, to = 4099;
    TwoRails rails(family(), nic, other_nic);
    ASSERT_TRUE(rails.a.reaches_gpu_memory());
    const Filled source(context(0), size, 1), target(context(5), size, 2);
    RegisteredMemory local = rails.a.register_memory(source.range());
    RegisteredMemory remote = rails.b.register_memory(target.range());
    const auto before = target.read(0, size);

    EXPECT_EQ(rails.move(Work::Kind::write, local, source.address() + from, remote, target.address() + to,
                         length, 100'000),
              Status::ok);
    EXPECT_EQ(target.read(to, length), source.read(from, length));
    EXPECT_EQ(target.read(0, to), std::vector<std::uint8_t>(before.begin(), before.begin() + to));
    EXPECT_EQ(target.read(to + length, size - to - length),
              std::vector<std::uint8_t>(before.begin() + to + length, before.end()));

    const Filled again(context(5), size, 3);
    RegisteredMemory other = rails.b.register_memory(again.range());
    EXPECT_EQ(rails.move(Work::Kind::read, local, source.address() + to, other, again.address() + from,
                         length, 1'000'000),
              Status::ok);
    EXPECT_EQ(source.read(to, length), again.read(from, length));
    rails.a.deregister_memory(local);
    rails.b.deregister_memory(remote);
    rails.b.deregister_memory(other);
}

TEST_P(GpuMemory, GoesToHostMemoryAndBack) {
    constexpr std::size_t size = 500'000;
    TwoRails rails(family(), nic, other_nic);
    const Filled device(context(2), size, 4);
    std::vector<std::uint8_t> host(size);
    RegisteredMemory local = rails.a.register_memory(device.range());
    RegisteredMemory remote =
        rails.b.register_memory({.address = reinterpret_cast<std::uint64_t>(host.data()), .length = size});
    EXPECT_EQ(rails.move(Work::Kind::write, local, device.address(), remote,
                         reinterpret_cast<std::uint64_t>(host.data()), size, 65'536),
              Status::ok);
    EXPECT_EQ(host, device.read(0, size));
    for (std::uint8_t& byte : host)
        byte ^= 0xff;
    EXPECT_EQ(rails.move(Work::Kind::read, local, device.address(), remote,
                         reinterpret_cast<std::uint64_t>(host.data()), size, 65'536),
              Status::ok);
    EXPECT_EQ(host, device.read(0, size));
    rails.a.deregister_memory(local);
    rails.b.deregister_memory(remote);
}

#ifdef FI_MR_DMABUF
constexpr bool built_with_dmabuf = true;
constexpr std::uint64_t by_dmabuf = FI_MR_DMABUF;
#else
constexpr bool built_with_dmabuf = false;
constexpr std::uint64_t by_dmabuf = 1ULL << 40;
#endif
#define NEEDS_DMABUF() \
    if (!built_with_dmabuf) GTEST_SKIP() << "libfabric's headers are older than 1.20"

/// The range with the descriptor of its allocation, as the engine asks for one.
class WithDmabuf {
  public:
    WithDmabuf(const Filled& memory, const cuda::ContextPtr& context, const cuda::Driver& driver)
        : export_(cuda::export_dmabuf(*context, cuda::list_devices(driver).at(0),
                                      cuda::describe_range(driver, memory.address(), memory.size),
                                      memory.address(), memory.size)),
          range_(memory.range()) {
        EXPECT_TRUE(export_.dmabuf) << export_.absent_because;
        if (!export_.dmabuf) return;
        range_.dmabuf = export_.dmabuf->fd();
        range_.dmabuf_base = export_.dmabuf->base();
    }
    /// `length` bytes from `offset` on.
    [[nodiscard]] MemoryRange part(std::uint64_t offset, std::uint64_t length) const {
        MemoryRange part = range_;
        part.address += offset;
        part.length = length;
        return part;
    }

  private:
    cuda::DmaBufExport export_;
    MemoryRange range_;
};

/// A WRITE into the middle of memory that was registered as `range`, whatever way.
void expect_written(TwoRails& rails, const Filled& source, const Filled& target, const MemoryRange& range) {
    RegisteredMemory local = rails.a.register_memory(source.range());
    RegisteredMemory remote = rails.b.register_memory(range);
    const std::uint64_t inside = 333, length = range.length - 2 * inside;
    const std::uint64_t offset = range.address - target.address();
    const auto before = target.read(0, target.size);
    auto wanted = before;
    const auto sent = source.read(77, length);
    std::copy(sent.begin(), sent.end(), wanted.begin() + static_cast<std::ptrdiff_t>(offset + inside));
    EXPECT_EQ(rails.move(Work::Kind::write, local, source.address() + 77, remote, range.address + inside,
                         length, 50'000),
              Status::ok);
    EXPECT_EQ(target.read(0, target.size), wanted);
    rails.a.deregister_memory(local);
    rails.b.deregister_memory(remote);
}

TEST_P(GpuMemory, IsReachedThroughADmabuf) {
    NEEDS_DMABUF();
    const cuda::ContextPtr gpu = context();
    TwoRails rails(family(), nic, other_nic);
    const Filled source(gpu, 500'000, 5), target(gpu, 400'000, 6);
    const WithDmabuf exported(target, gpu, driver());
    const Disturbance no_addresses("gpu_address=off", {"*", other_nic});
    EXPECT_THROW(rails.b.register_memory(target.range()), Error);
    expect_written(rails, source, target, exported.part(0, 400'000));
    expect_written(rails, source, target, exported.part(10'001, 100'000));
}

TEST_P(GpuMemory, IsReachedByAddressWhereDmabufsAreRefused) {
    const cuda::ContextPtr gpu = context();
    TwoRails rails(family(), nic, other_nic);
    const Filled source(gpu, 500'000, 7), target(gpu, 400'000, 8);
    const WithDmabuf exported(target, gpu, driver());
    const Disturbance refused("gpu_dmabuf=off");
    expect_written(rails, source, target, exported.part(20'000, 200'000));
}

/// Registrations as the provider sees them, with answers of the test's for those by dmabuf.
struct Registrations {
    int answer = 0;  ///< 0: the provider's own
    std::vector<bool> with_dmabuf;
    fi_ops_mr* real = nullptr;
};
Registrations registrations;

int watched_register(fid* domain, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region) {
    const bool dmabuf = (flags & by_dmabuf) != 0;
    registrations.with_dmabuf.push_back(dmabuf);
    if (dmabuf && registrations.answer) return registrations.answer;
    return registrations.real->regattr(domain, attr, flags, region);
}

TEST_P(GpuMemory, ADmabufIsTriedFirstAndItsAbsenceAloneIsForgiven) {
    NEEDS_DMABUF();
    const cuda::ContextPtr gpu = context();
    const Filled memory(gpu, 10'000, 9);
    const WithDmabuf exported(memory, gpu, driver());
    const Opened rail(device_of(family(), nic));
    registrations = {0, {}, rail.domain.get()->mr};
    fi_ops_mr watched = *registrations.real;
    watched.regattr = watched_register;
    rail.domain.get()->mr = &watched;
    auto tries = [&](int answer, const MemoryRange& range) {
        registrations.answer = answer;
        registrations.with_dmabuf.clear();
        const auto failed =
            error_of([&] { const fabric::MemoryRegion region(rail.domain, rail.endpoint, range); });
        EXPECT_EQ(failed.first == Status::ok, registrations.with_dmabuf.size() == 2 || answer == 0) << answer;
        return registrations.with_dmabuf;
    };
    const MemoryRange range = exported.part(0, memory.size);
    EXPECT_EQ(tries(0, range), std::vector<bool>({true}));
    EXPECT_EQ(tries(0, memory.range()), std::vector<bool>({false})) << "there is none";
    MemoryRange alone = range;
    alone.dmabuf_alone = true;
    constexpr int kernel_has_none = -524;
    for (const int absent : {-FI_EOPNOTSUPP, -FI_EINVAL, -FI_ENOSYS, -FI_EBADFLAGS, kernel_has_none}) {
        EXPECT_EQ(tries(absent, range), std::vector<bool>({true, false})) << absent;
        EXPECT_EQ(tries(absent, alone), std::vector<bool>({true})) << absent;
        EXPECT_EQ(
            error_of([&] { const fabric::MemoryRegion region(rail.domain, rail.endpoint, alone); }).first,
            Status::not_supported);
    }
    for (const int failure : {-FI_ENOMEM, -FI_EIO})
        EXPECT_EQ(tries(failure, range), std::vector<bool>({true})) << failure;
    rail.domain.get()->mr = registrations.real;
}

int busy_register(fid*, const fi_mr_attr*, std::uint64_t, fid_mr**) {
    return registrations.answer;
}

/// What a later attempt may do is not to be taken for what the NIC cannot.
TEST_P(GpuMemory, AShortageThatPassesIsToldFromWhatStays) {
    const cuda::ContextPtr gpu = context();
    const Filled memory(gpu, 10'000, 9);
    const Opened rail(device_of(family(), nic));
    registrations = {0, {}, rail.domain.get()->mr};
    fi_ops_mr busy = *registrations.real;
    busy.regattr = busy_register;
    rail.domain.get()->mr = &busy;
    const auto told = [&](int answer) -> std::string {
        registrations.answer = answer;
        try {
            const fabric::MemoryRegion region(rail.domain, rail.endpoint, memory.range());
        } catch (const PassingError& error) {
            return std::string("passes: ") + error.what();
        } catch (const Error& error) {
            return std::string("stays: ") + error.what();
        }
        return "registered";
    };
    EXPECT_CONTAINS(told(-FI_EAGAIN), "passes: ");
    EXPECT_CONTAINS(told(-FI_EAGAIN), "try again");
    EXPECT_CONTAINS(told(-FI_ENOMEM), "stays: ");
    EXPECT_CONTAINS(told(-FI_ENOMEM), "BAR1");
    EXPECT_CONTAINS(told(-FI_EOPNOTSUPP), "stays: ");
    {
        const FewFiles few(0);
        EXPECT_CONTAINS(told(-FI_EOPNOTSUPP), "passes: ");
        EXPECT_CONTAINS(told(-FI_EOPNOTSUPP), "ulimit -n");
    }
    rail.domain.get()->mr = registrations.real;
}

}  // namespace
}  // namespace railyard::test
