// The benchmark's own GPU memory and streams, on the fake driver.
#include <gtest/gtest.h>

#include "failure.h"
#include "fakecuda/control.h"
#include "fakecuda/nothing_left.h"
#include "side_memory.h"

namespace railyard::bench {
namespace {

using fakecuda::fake;

template <class Action>
std::string failure_of(Action&& action) {
    try {
        action();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "nothing was thrown";
}

/// Everything that a case has made is gone at its end.
class BenchGpu : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one";
        before_ = fake().statistics();
    }
    void TearDown() override {
        fake().fail_nothing();
        fakecuda::expect_nothing_left(before_, fake().statistics());
    }

    static constexpr Layout layout{5000, 3, 2};
    static constexpr std::size_t length = 128 << 10;

  private:
    fakecuda_statistics before_{};
};

TEST_F(BenchGpu, MemoryLiesOnTheGpuAskedFor) {
    SideMemory memory({true, 2}, length);
    EXPECT_EQ(memory.range().device, 3u);
    EXPECT_EQ(memory.range().length, length);
    std::byte first{1};
    EXPECT_EQ(fake().gpu_read(memory.range().address, &first, 1), 0u) << "not GPU memory";
    EXPECT_EQ(first, std::byte{0});
    EXPECT_NE(failure_of([&] { (void)memory.host_bytes(); }).find("host memory only"), std::string::npos);
}

TEST_F(BenchGpu, WhatIsFilledIsOnTheDeviceAndFoundRight) {
    SideMemory memory({true, 0}, length);
    memory.fill_source(layout, 7);
    EXPECT_EQ(memory.check_destination(layout, 7, Corrupt::none), std::nullopt);
    EXPECT_NE(memory.check_destination(layout, 8, Corrupt::none), std::nullopt);
    for (unsigned slot = 0; slot < layout.window; ++slot)
        EXPECT_EQ(memory.check_slot(layout, 7, slot), std::nullopt);
    memory.scrub_destination(layout, 7);
    EXPECT_NE(memory.check_slot(layout, 7, 0), std::nullopt);
}

TEST_F(BenchGpu, AByteThatChangesOnTheDeviceIsFound) {
    SideMemory memory({true, 1}, length);
    memory.fill_source(layout, 7);
    const std::uint64_t last = layout.offset(1, 2) + layout.size - 1;
    for (const std::uint64_t place : {last, last + 1}) {
        std::byte was{};
        ASSERT_EQ(fake().gpu_read(memory.range().address + place, &was, 1), 0u);
        const std::byte other = was ^ std::byte{4};
        ASSERT_EQ(fake().gpu_write(memory.range().address + place, &other, 1), 0u);
        EXPECT_EQ(memory.check_slot(layout, 7, 0), std::nullopt);
        EXPECT_NE(memory.check_slot(layout, 7, 1), std::nullopt);
        EXPECT_NE(memory.check_destination(layout, 7, Corrupt::none), std::nullopt);
        ASSERT_EQ(fake().gpu_write(memory.range().address + place, &was, 1), 0u);
    }
    for (const Corrupt kind : {Corrupt::data, Corrupt::guard})
        EXPECT_NE(memory.check_destination(layout, 7, kind), std::nullopt)
            << "the program's own fault injection";
}

TEST_F(BenchGpu, StreamsAreEightBytesAndEachItsOwn) {
    Gpu gpu(0);
    const GpuStream one(gpu), two(gpu);
    EXPECT_EQ(one.custom_param().size(), 8u);
    EXPECT_NE(one.custom_param(), two.custom_param());
    EXPECT_NE(one.custom_param(), std::string(8, '\0'));
}

TEST_F(BenchGpu, WhatIsMissingIsNamed) {
    const std::string text = failure_of([] { Gpu gpu(3); });
    EXPECT_NE(text.find("no GPU 3"), std::string::npos) << text;
    EXPECT_NE(text.find("shows 3"), std::string::npos) << text;
    fake().fail("cuMemAlloc", 1, 2);
    EXPECT_NE(failure_of([] { SideMemory memory({true, 0}, length); }).find("--memory"), std::string::npos);
    fake().fail("cuMemsetD8", 1, 719);
    EXPECT_NE(failure_of([] { SideMemory memory({true, 0}, length); }).find("cuMemsetD8"), std::string::npos);
    SideMemory memory({true, 0}, length);
    fake().fail("cuMemcpyAsync", 1, 700);
    EXPECT_NE(failure_of([&] { memory.fill_source(layout, 1); }).find("CUDA_ERROR_ILLEGAL_ADDRESS"),
              std::string::npos);
}

}  // namespace
}  // namespace railyard::bench
