// Virtual memory of GPUs (cuMemCreate, cuMemMap), as PyTorch's expandable segments and the sleep of inference
// servers have it: regions over several mappings, and such as are unmapped while they are registered.
#include "gpu_transfers.h"
#include "log_lines.h"

namespace railyard::test {
namespace {

class GpuVirtual : public GpuMemory {};

#define CU(name) (reinterpret_cast<decltype(&name)>(symbol(#name)))

/// Mappings of one GPU, one after the other in one reserved range; zeroed.
class VirtualMemory {
  public:
    static constexpr std::size_t unit = std::size_t{2} << 20;

    VirtualMemory(int gpu, std::size_t mappings)
        : length(mappings * unit), gpu_(gpu), context_(cuda_driver(), gpu) {
        CUdeviceptr reserved = 0;
        EXPECT_EQ(CU(cuMemAddressReserve)(&reserved, length, 0, 0, 0), CUDA_SUCCESS);
        address = reserved;
        map();
    }
    ~VirtualMemory() {
        unmap();
        EXPECT_EQ(CU(cuMemAddressFree)(address, length), CUDA_SUCCESS);
    }
    VirtualMemory(const VirtualMemory&) = delete;
    VirtualMemory& operator=(const VirtualMemory&) = delete;

    void map() {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu_};
        properties.allocFlags.gpuDirectRDMACapable = 1;
        for (std::size_t at = 0; at < length; at += unit) {
            CUmemGenericAllocationHandle handle = 0;
            EXPECT_EQ(CU(cuMemCreate)(&handle, unit, &properties, 0), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuMemMap)(address + at, unit, 0, handle, 0), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
        }
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, gpu_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_EQ(CU(cuMemSetAccess)(address, length, &access, 1), CUDA_SUCCESS);
        mapped_ = true;
    }
    void unmap() {
        if (std::exchange(mapped_, false)) {
            EXPECT_EQ(CU(cuMemUnmap)(address, length), CUDA_SUCCESS);
        }
    }
    void fill(std::uint32_t seed) const {
        std::vector<std::uint8_t> pattern(length);
        fill_pattern(pattern, seed);
        EXPECT_EQ(fake().gpu_write(address, pattern.data(), length), 0u);
    }
    [[nodiscard]] std::vector<std::uint8_t> content() const {
        std::vector<std::uint8_t> bytes(length);
        EXPECT_EQ(fake().gpu_read(address, bytes.data(), length), 0u);
        return bytes;
    }

    std::uint64_t address = 0;
    const std::size_t length;

  private:
    const int gpu_;
    const cuda::PrimaryContext context_;
    bool mapped_ = false;
};

TEST_P(GpuVirtual, ARegionOverSeveralMappingsIsOnTheRailsAndWhole) {
    constexpr std::size_t unit = VirtualMemory::unit, before = 4099, length = 2 * unit + 100'001;
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    VirtualMemory here(0, 3), there(1, 4);
    std::shared_ptr<Registration> local =
        pair.a->register_memory(here.address, here.length, 0, MemoryType::device);
    // Neither begins nor ends with a mapping.
    std::shared_ptr<Registration> remote =
        pair.b->register_memory(there.address + before, length + 5, 1, MemoryType::device);
    // By address no NIC here gets beyond the end of a mapping.
    EXPECT_EQ(local->staged, !(zero_copy() && with_dmabuf()));
    EXPECT_EQ(remote->staged, local->staged);
    const auto region =
        pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote), remote->address, remote->length);
    const LocalDescriptor from[] = {{here.address + 333, length, &local}};
    const RemoteDescriptor to[] = {{remote->address + 5, length, &region}};
    for (const Operation operation : {Operation::write, Operation::read}) {
        const bool write = operation == Operation::write;
        const VirtualMemory &source = write ? here : there, &target = write ? there : here;
        const std::size_t from_offset = write ? 333 : before + 5, to_offset = write ? before + 5 : 333;
        source.fill(write ? 3 : 4);
        std::vector<std::uint8_t> expected = target.content();
        const std::vector<std::uint8_t> sent = source.content();
        std::copy_n(sent.begin() + from_offset, length, expected.begin() + to_offset);
        Transfer* transfer = pair.a->prepare(operation, from, to, "beta", "done");
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        EXPECT_EQ(pair.notifications(1).size(), 1u);
        EXPECT_TRUE(target.content() == expected);
        pair.a->release(transfer);
    }
    pair.a->deregister_memory(local);
    pair.b->deregister_memory(remote);
}

/// `count` pages, every other one.
template <class Descriptor, class Region>
std::vector<Descriptor> pages(std::uint64_t address, std::size_t count, const Region& region) {
    std::vector<Descriptor> listed;
    for (std::size_t i = 0; i < count; ++i)
        listed.push_back({address + 2 * i * 4096, 4096, &region});
    return listed;
}

constexpr std::size_t count = 16;

/// A kernel would end the program's context.
TEST_P(GpuVirtual, CopyingWhatWasUnmappedIsRefusedAndTheGpuGoesOn) {
    const auto engine = make_engine("alone", GetParam().fabric, GetParam().extra);
    VirtualMemory sleeping(0, 1);
    const std::shared_ptr<Registration> region =
        engine->register_memory(sleeping.address, sleeping.length, 0, MemoryType::device);
    Place target(*engine, 0, 2 * count * 4096);
    const auto remote = engine->local_as_remote(target.region);
    sleeping.fill(5);
    Transfer* transfer =
        engine->prepare(Operation::write, pages<LocalDescriptor>(sleeping.address, count, region),
                        pages<RemoteDescriptor>(target.address, count, remote), "alone", std::nullopt);
    EXPECT_EQ(run_alone(*engine, *transfer), Status::ok);
    sleeping.unmap();
    EXPECT_EQ(run_alone(*engine, *transfer), Status::backend);
    sleeping.map();
    sleeping.fill(6);
    for (int i = 0; i < 8; ++i)  // on each of the streams
        EXPECT_EQ(run_alone(*engine, *transfer), Status::ok);
    const std::vector<std::uint8_t> sent = sleeping.content(), got = target.content();
    for (std::size_t i = 0; i < 2 * count * 4096; ++i)
        ASSERT_EQ(got[i], i / 4096 % 2 == 0 ? sent[i] : 0) << i;
    engine->release(transfer);
    target.drop(*engine);
    engine->deregister_memory(region);
}

TEST_P(GpuVirtual, WhatAPeerWritesToUnmappedMemoryIsRefusedAndTheGpuGoesOn) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    VirtualMemory sleeping(1, 1);
    const std::shared_ptr<Registration> remote =
        pair.b->register_memory(sleeping.address, sleeping.length, 1, MemoryType::device);
    if (remote->staged) {
        Place local(*pair.a, 0, 2 * count * 4096);
        local.fill(7);
        const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote),
                                                       remote->address, remote->length);
        for (const Operation operation : {Operation::write, Operation::read}) {
            Transfer* transfer = pair.a->prepare(
                operation, pages<LocalDescriptor>(local.address, count, local.region),
                pages<RemoteDescriptor>(sleeping.address, count, region), "beta", std::nullopt);
            EXPECT_EQ(pair.run(*transfer), Status::ok);
            sleeping.unmap();
            EXPECT_NE(pair.run(*transfer), Status::ok);
            sleeping.map();
            EXPECT_EQ(pair.run(*transfer), Status::ok);
            pair.a->release(transfer);
        }
        local.drop(*pair.a);
    }
    pair.b->deregister_memory(remote);
}

TEST_P(GpuVirtual, ThatNicsCouldReachItAndDoNotIsSaidOnce) {
    ParamMap params = GetParam().extra;
    const bool forced = params["vram_staging"] == "always";
    if (params["vram_staging"].empty()) params.erase("vram_staging");
    const auto engine = make_engine("alone", GetParam().fabric, params);
    VirtualMemory memory(0, 3), other(1, 3);
    const LogLines log;
    const auto lines = [](int gpu) {
        return LogLines::count("memory of GPU " + std::to_string(gpu) +
                               " goes through pinned host memory, though there are NICs");
    };
    // No driver that is too old for it, here.
    fake().fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_INVALID_VALUE);
    const auto add = [&](const VirtualMemory& of, std::uint64_t gpu, std::size_t offset) {
        engine->deregister_memory(
            engine->register_memory(of.address + offset, 2 * VirtualMemory::unit, gpu, MemoryType::device));
    };
    add(memory, 0, 0);
    const bool told = GetParam().fabric.provider.starts_with("efa") && !forced;
    EXPECT_EQ(lines(0), told);
    if (told && zero_copy()) {
        EXPECT_TRUE(LogLines::contain("2 mappings of virtual memory"));
        EXPECT_TRUE(LogLines::contain("expandable_segments"));
    }
    add(memory, 0, 4096);
    EXPECT_EQ(lines(0), told);
    add(other, 1, 0);
    EXPECT_EQ(lines(1), told);
    EXPECT_EQ(LogLines::count("pinned host memory"), 2 * told);
    fake().fail_nothing();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuVirtual, testing::ValuesIn(gpu_fabrics()), gpu_fabric_name);

}  // namespace
}  // namespace railyard::test
