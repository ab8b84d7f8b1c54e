// GPUs that hang on their CPU by NVLink-C2C, as those of p6e-gb200: a NIC below the GPU's PCIe switch reaches
// its memory through BAR1 alone, every other one by way of the CPU alone, and what is registered through the
// wrong window is noticed when data moves.
#include <filesystem>
#include <fstream>

#include "conformance/gpu_transfers.h"
#include "cuda/dmabuf.h"
#include "simulated_machine.h"
#include "two_rails.h"

namespace railyard::test {
namespace gpu_window_test {

// Of the GPU at 29:00.0, the first one.
constexpr const char* near_nic = "rdmap39s0";
constexpr const char* far_nic = "rdmap54s0";
/// Below the switch of the second GPU.
constexpr const char* other_near_nic = "rdmap61s0";

class GpuWindows : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (!with_dmabuf()) GTEST_SKIP() << "libfabric is older than 1.20";
        before_ = fake().statistics();
    }
    void TearDown() override {
        if (with_dmabuf()) fakecuda::expect_nothing_left(before_, fake().statistics());
    }
    [[nodiscard]] static Fabric fabric(int rails) { return {GetParam(), rails, false}; }

  private:
    fakecuda_statistics before_{};
};

/// Between GPU 0 here and host memory there, both ways.
void expect_moved_both_ways(EnginePair& pair, std::size_t rails) {
    constexpr std::size_t length = 3'000'000;
    Place gpu(*pair.a, 0, length), other(*pair.b, host, length), there(*pair.b, 0, length),
        here(*pair.a, host, length);
    for (const Place* place : {&gpu, &there}) {
        EXPECT_FALSE(place->region->staged);
        EXPECT_EQ(place->region->rails.size(), rails);
    }
    const auto move = [&](Operation operation, Place& local, Place& remote) {
        Place &from = operation == Operation::write ? local : remote, &to = &from == &local ? remote : local;
        from.fill(static_cast<std::uint32_t>(operation) + 11);
        const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                       remote.address, length);
        const LocalDescriptor ours[] = {{local.address, length, &local.region}};
        const RemoteDescriptor theirs[] = {{remote.address, length, &region}};
        Transfer* transfer = pair.a->prepare(operation, ours, theirs, "beta", std::nullopt);
        EXPECT_EQ(pair.run(*transfer), Status::ok);
        EXPECT_TRUE(from.content() == to.content());
        pair.a->release(transfer);
    };
    move(Operation::write, gpu, other);
    move(Operation::read, gpu, other);
    move(Operation::write, here, there);
    move(Operation::read, here, there);
    for (Place* place : {&gpu, &here})
        place->drop(*pair.a);
    for (Place* place : {&other, &there})
        place->drop(*pair.b);
}

TEST_P(GpuWindows, EachKindOfNicReachesTheMemory) {
    for (const char* nic : {near_nic, far_nic, other_near_nic}) {
        SCOPED_TRACE(nic);
        const Growth writes("writes", {"*", nic});
        EnginePair pair(fabric(1), fabric(1), {{"devices", nic}, {"vram_staging", "never"}});
        expect_moved_both_ways(pair, 1);
        EXPECT_GT(writes.value(), 0u);
    }
}

/// The machine's topology without one of its NICs, whose rail serves all memory then.
class WithoutANic {
  public:
    explicit WithoutANic(const std::string& pci)
        : path_(std::filesystem::temp_directory_path() /
                ("railyard-window-" + std::to_string(getpid()) + ".xml")) {
        std::ifstream whole(std::getenv("HWLOC_XMLFILE"));
        std::ofstream less(path_);
        std::string line;
        bool inside = false;
        while (std::getline(whole, line)) {
            inside = inside || line.find("pci_busid=\"" + pci + "\"") != std::string::npos;
            if (!inside) less << line << '\n';
            if (line.find("</object>") != std::string::npos) inside = false;
        }
    }
    ~WithoutANic() { std::filesystem::remove(path_); }
    WithoutANic(const WithoutANic&) = delete;
    WithoutANic& operator=(const WithoutANic&) = delete;
    [[nodiscard]] std::string path() const { return path_.string(); }

  private:
    const std::filesystem::path path_;
};

TEST_P(GpuWindows, NicsOfBothKindsCarryOneRegion) {
    const WithoutANic topology("0000:36:00.0");
    const Growth near("writes", {"*", near_nic}), far("writes", {"*", far_nic});
    EnginePair pair(fabric(2), fabric(2),
                    {{"devices", std::string(near_nic) + "," + far_nic},
                     {"topology_file", topology.path()},
                     {"vram_staging", "never"},
                     {"chunk_size", "65536"}});
    expect_moved_both_ways(pair, 2);
    EXPECT_GT(near.value(), 0u);
    EXPECT_GT(far.value(), 0u);
}

/// What all of this is for: nobody says so when the memory is registered.
TEST_P(GpuWindows, TheWrongWindowIsNoticedWhenDataMoves) {
    constexpr std::size_t length = 100'000;
    const auto gpu_context = std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0);
    std::vector<std::uint8_t> source(length);
    fill_pattern(source, 3);
    for (const char* nic : {near_nic, far_nic}) {
        for (const auto mapping : {cuda::DmaBufMapping::usual, cuda::DmaBufMapping::pcie}) {
            const bool right = (mapping == cuda::DmaBufMapping::pcie) == (nic == near_nic);
            SCOPED_TRACE(std::string(nic) + (right ? ", right" : ", wrong"));
            const HostOrGpuMemory memory(0, length);
            const cuda::DmaBufExport made = cuda::export_dmabuf(
                *gpu_context, cuda::list_devices(cuda_driver()).at(0),
                cuda::describe_range(cuda_driver(), memory.address, length), memory.address, length, mapping);
            ASSERT_TRUE(made.dmabuf) << made.absent_because;
            EXPECT_EQ(made.mapping, mapping);
            TwoRails rails(GetParam(), other_near_nic, nic);
            RegisteredMemory local = rails.a.register_memory(
                {.address = reinterpret_cast<std::uint64_t>(source.data()), .length = length});
            RegisteredMemory remote = rails.b.register_memory({.address = memory.address,
                                                               .length = length,
                                                               .gpu = 0,
                                                               .dmabuf = made.dmabuf->fd(),
                                                               .dmabuf_base = made.dmabuf->base()});
            for (const Work::Kind kind : {Work::Kind::write, Work::Kind::read}) {
                EXPECT_EQ(rails.move(kind, local, reinterpret_cast<std::uint64_t>(source.data()), remote,
                                     memory.address, length, 50'000),
                          right ? Status::ok : Status::remote_disconnect);
            }
            EXPECT_EQ(memory.content() == source, right);
            rails.a.deregister_memory(local);
            rails.b.deregister_memory(remote);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuWindows, testing::Values("efa-direct", "efa"), [](const auto& value) {
    return std::string(value.param) == "efa" ? "efa" : "efa_direct";
});

}  // namespace gpu_window_test
}  // namespace railyard::test
