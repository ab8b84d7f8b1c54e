// Which descriptor of GPU memory a rail is given, by the place of its NIC and what the driver grants, on the
// fake driver.
#include "manager/gpu_dmabufs.h"

#include <vector>

#include "cuda/device.h"
#include "unit/cuda/on_fake_driver.h"

namespace railyard {
namespace gpu_dmabufs_test {

using cuda::fake;

enum Window : unsigned { only, by_way_of_the_cpu, bar1, none };

/// What a rail was offered for one range, in turn.
class AskedRail final : public Rail {
  public:
    AskedRail() : Rail("asked") {}

    RegisteredMemory register_memory(const MemoryRange& range) override {
        unsigned long long bridge = 0;
        offered.push_back(
            range.dmabuf < 0 ? none : static_cast<Window>(fake().dmabuf_window(range.dmabuf, &bridge)));
        descriptors.push_back(range.dmabuf);
        CUcontext current = nullptr;
        EXPECT_EQ(cuda::find_driver().driver->ctx_get_current(&current), CUDA_SUCCESS);
        contexts.push_back(current);
        EXPECT_EQ(range.dmabuf_alone, offered.back() == bar1);
        if (range.dmabuf >= 0) {
            EXPECT_EQ(range.dmabuf_base, range.address / 4096 * 4096);
        }
        if (offered.back() == bar1 && refusal != Status::ok) throw Error(refusal, "no");
        return {};
    }
    [[nodiscard]] std::string address() const override { return ""; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return 1; }

    Status refusal = Status::ok;  ///< of BAR1
    std::vector<Window> offered;
    std::vector<int> descriptors;
    std::vector<CUcontext> contexts;

  protected:
    bool serve(bool) noexcept override { return false; }
    PeerAddress do_insert_peer(std::string_view) override { return no_address; }
    void do_remove_peer(PeerAddress) noexcept override {}
};

class GpuDmabufsTest : public cuda::OnFakeDriver {
  protected:
    static constexpr std::uint64_t length = 5000;

    void SetUp() override {
        OnFakeDriver::SetUp();
        gpu_ = std::make_unique<Gpu>(driver(), cuda::list_devices(driver()).at(0));
        memory_ = std::make_unique<cuda::DeviceBuffer>(gpu_->context(), 100'000);
    }
    void TearDown() override {
        memory_.reset();
        gpu_.reset();
        fake().set_c2c(0);
        OnFakeDriver::TearDown();
    }
    [[nodiscard]] Gpu& gpu() const { return *gpu_; }
    [[nodiscard]] MemoryRange range() const {
        return {.address = memory_->address() + 7000, .length = length, .gpu = 0};
    }

    /// Calls `use` with dmabufs of the range.
    template <class Use>
    void with_dmabufs(Use&& use) {
        const cuda::PointerInfo info = cuda::describe_range(driver(), range().address, length);
        GpuDmabufs dmabufs(gpu(), info, range().address, length);
        use(dmabufs);
    }
    /// What a rail is offered that is below the GPU's switch, or not.
    std::vector<Window> offered(bool below, Status refusal = Status::ok) {
        AskedRail rail;
        rail.refusal = refusal;
        with_dmabufs(
            [&](GpuDmabufs& dmabufs) { static_cast<void>(dmabufs.register_on(rail, below, range())); });
        return rail.offered;
    }

  private:
    std::unique_ptr<Gpu> gpu_;
    std::unique_ptr<cuda::DeviceBuffer> memory_;
};

TEST_F(GpuDmabufsTest, EachNicIsGivenTheWindowThatItReaches) {
    fake().set_c2c(1);
    AskedRail near, other, far;
    with_dmabufs([&](GpuDmabufs& dmabufs) {
        static_cast<void>(dmabufs.register_on(near, true, range()));
        static_cast<void>(dmabufs.register_on(far, false, range()));
        static_cast<void>(dmabufs.register_on(other, true, range()));
        EXPECT_FALSE(dmabufs.absent_because());
    });
    EXPECT_EQ(near.offered, std::vector{bar1});
    EXPECT_EQ(other.descriptors, near.descriptors) << "one for each window";
    EXPECT_EQ(far.offered, std::vector{by_way_of_the_cpu});
    EXPECT_EQ(gpu().window(), GpuWindow::two);
}

/// As on every machine but those of Grace: one descriptor for all, and a driver that is asked for the other
/// window once in a GPU's life.
TEST_F(GpuDmabufsTest, OneWindowIsAskedForOnce) {
    AskedRail near, other, far;
    const auto register_all = [&] {
        const std::size_t before = fake().statistics().calls;
        with_dmabufs([&](GpuDmabufs& dmabufs) {
            static_cast<void>(dmabufs.register_on(near, true, range()));
            static_cast<void>(dmabufs.register_on(other, true, range()));
            static_cast<void>(dmabufs.register_on(far, false, range()));
        });
        return fake().statistics().calls - before;
    };
    const std::size_t first = register_all(), second = register_all();
    EXPECT_EQ(first, second + 2) << "of the range, and of the whole allocation";
    EXPECT_EQ(gpu().window(), GpuWindow::one);
    for (const AskedRail* rail : {&near, &other, &far})
        EXPECT_EQ(rail->offered, std::vector({only, only}));
    EXPECT_EQ(near.descriptors, other.descriptors);
    EXPECT_EQ(near.descriptors, far.descriptors);
}

/// Else libfabric takes it that there are no dmabufs, for the rest of the process.
TEST_F(GpuDmabufsTest, AProviderThatAsksTheDriverItselfHasTheContext) {
    fake().fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_NOT_SUPPORTED);
    AskedRail rail;
    with_dmabufs([&](GpuDmabufs& dmabufs) {
        std::thread([&] { static_cast<void>(dmabufs.register_on(rail, false, range())); }).join();
    });
    EXPECT_EQ(rail.offered, std::vector{none});
    EXPECT_EQ(rail.contexts, std::vector{gpu().context()->get()});
}

TEST_F(GpuDmabufsTest, ANicThatRefusesTheOneWindowIsOfferedTheOther) {
    fake().set_c2c(1);
    EXPECT_EQ(offered(true, Status::not_supported), std::vector({bar1, by_way_of_the_cpu}));
    // What it has no room for it would not reach through the other window either.
    AskedRail full;
    full.refusal = Status::backend;
    with_dmabufs([&](GpuDmabufs& dmabufs) {
        EXPECT_THROW(static_cast<void>(dmabufs.register_on(full, true, range())), Error);
    });
    EXPECT_EQ(full.offered, std::vector{bar1});
}

TEST_F(GpuDmabufsTest, WhereTheRightWindowIsNotToBeHadTheWrongOneIsNotOffered) {
    fake().set_c2c(1);
    fake().fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(offered(true), std::vector{none}) << "BAR1 is full";
    fake().fail_nothing();
    EXPECT_EQ(offered(true), std::vector{bar1});
    // The driver has granted BAR1 before, so that what it gives now is the other window.
    fake().set_c2c(0);
    EXPECT_EQ(offered(true), std::vector{none});
    EXPECT_EQ(offered(false), std::vector{only});
    with_dmabufs([&](GpuDmabufs& dmabufs) {
        AskedRail rail;
        static_cast<void>(dmabufs.register_on(rail, true, range()));
        EXPECT_EQ(dmabufs.absent_because(), "the driver refuses BAR1 for this memory");
    });
}

}  // namespace gpu_dmabufs_test
}  // namespace railyard
