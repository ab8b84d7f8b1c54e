// Small pieces in one launch of a kernel: when, and that it is the same as copies one by one. That the kernel
// itself does so, a GPU shows (test/gpu).
#include "cuda/copy_kernel.h"

#include <optional>
#include <tuple>

#include "cuda/copy_stream.h"
#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

class CudaCopyKernel : public OnFakeDriver {
  protected:
    static constexpr std::size_t piece = 600, count = 400;

    void TearDown() override {
        stream_.reset();
        source_.reset();
        target_.reset();
        kernel_.reset();
        context_.reset();
        OnFakeDriver::TearDown();
    }
    void prepare() {
        context_ = context();
        kernel_ = CopyKernel::load(context_);
        ASSERT_NE(kernel_, nullptr);
        stream_.emplace(context_, 1, kernel_);
        source_.emplace(context_, count * piece);
        target_.emplace(context_, count * piece);
        bytes_ = pattern(count * piece, 3);
        fill(*source_, bytes_);
    }
    /// So many pieces of `length`, each to the place that it has from the other end.
    void copy(std::size_t pieces, std::size_t length, Reach reach) {
        const std::size_t launches = fake().statistics().launches;
        {
            CopyStream::Group group(*stream_, 0, reach);
            for (std::size_t i = 0; i < pieces; ++i)
                group.add(
                    {target_->address() + (count - 1 - i) * piece, source_->address() + i * piece, length});
        }
        EXPECT_EQ(end_of([&] { return stream_->poll(0); }), Status::ok);
        launched_ = fake().statistics().launches - launches;
        const std::vector<char> got = content(*target_, count * piece);
        for (std::size_t i = 0; i < pieces; ++i) {
            const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(i * piece);
            ASSERT_TRUE(std::equal(from, from + static_cast<std::ptrdiff_t>(length),
                                   got.begin() + static_cast<std::ptrdiff_t>((count - 1 - i) * piece)))
                << i;
        }
        fill(*target_, std::vector<char>(count * piece));
    }

    ContextPtr context_;
    std::shared_ptr<const CopyKernel> kernel_;
    std::optional<DeviceBuffer> source_, target_;
    std::optional<CopyStream> stream_;
    std::vector<char> bytes_;
    std::size_t launched_ = 0;
};

TEST_F(CudaCopyKernel, ManySmallPiecesAreAFewLaunches) {
    prepare();
    copy(count, piece - 1, Reach::gpus);
    EXPECT_EQ(launched_, 3U);  // 160, 160, 80
    copy(161, 16, Reach::gpus);
    EXPECT_EQ(launched_, 1U) << "a single one more is a copy";
    copy(4, piece, Reach::pinned);
    EXPECT_EQ(launched_, 1U);
    copy(3, piece, Reach::gpus);
    EXPECT_EQ(launched_, 0U);
}

TEST_F(CudaCopyKernel, WhatThreadsMayNotTouchIsCopiedByTheDriver) {
    prepare();
    copy(count, piece, Reach::unknown);
    EXPECT_EQ(launched_, 0U);
}

/// Once memory of another context may be among them, which kernels of this one do not see.
TEST_F(CudaCopyKernel, MemoryOfAnotherContextIsCopiedByTheDriver) {
    prepare();
    context_->note_memory_of(nullptr);
    context_->note_memory_of(context_->get());
    copy(4, piece, Reach::pinned);
    EXPECT_EQ(launched_, 1U);
    context_->note_memory_of(reinterpret_cast<const CUctx_st*>(this));
    copy(4, piece, Reach::pinned);
    copy(count, piece, Reach::gpus);
    EXPECT_EQ(launched_, 0U);
}

TEST_F(CudaCopyKernel, LargePiecesAreCopiedByTheDriver) {
    prepare();
    constexpr std::size_t large = 300 << 10, small = 100 << 10;
    const DeviceBuffer from(context_, 8 * large), to(context_, 8 * large);
    const std::vector<char> bytes = pattern(8 * large, 4);
    fill(from, bytes);
    for (const auto& [length, reach, launches] :
         {std::tuple(large, Reach::gpus, 0U), {small, Reach::gpus, 1U}, {small, Reach::pinned, 0U}}) {
        const std::size_t before = fake().statistics().launches;
        {
            CopyStream::Group group(*stream_, 0, reach);
            for (std::size_t i = 0; i < 8; ++i)
                group.add({to.address() + i * large, from.address() + i * large, length});
        }
        EXPECT_EQ(end_of([&] { return stream_->poll(0); }), Status::ok);
        EXPECT_EQ(fake().statistics().launches - before, launches) << length;
    }
    EXPECT_EQ(content(to, 8 * large), bytes);
}

TEST_F(CudaCopyKernel, ALaunchThatIsRefusedIsMadeUpFor) {
    prepare();
    fake().fail("cuLaunchKernel", 2, CUDA_ERROR_OUT_OF_MEMORY);
    copy(count, piece, Reach::gpus);
    EXPECT_EQ(launched_, 2U);
    fake().fail("cuMemcpyAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
    fake().fail("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
    CopyStream::Group(*stream_, 0, Reach::gpus).add({target_->address(), source_->address(), 10});
    EXPECT_EQ(end_of([&] { return stream_->poll(0); }), Status::backend);
}

TEST_F(CudaCopyKernel, AFaultOfTheKernelIsAnError) {
    prepare();
    const std::vector<char> plain(4 * piece);
    {
        CopyStream::Group group(*stream_, 0, Reach::gpus);
        for (std::size_t i = 0; i < 4; ++i)
            group.add({target_->address(), reinterpret_cast<std::uint64_t>(plain.data()) + i * piece, piece});
    }
    EXPECT_EQ(end_of([&] { return stream_->poll(0); }), Status::backend);
}

TEST_F(CudaCopyKernel, ADriverThatDoesNotTakeItIsNoError) {
    const ContextPtr held = context();
    for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction"}) {
        fake().fail(call, 1, CUDA_ERROR_INVALID_PTX);
        EXPECT_EQ(CopyKernel::load(held), nullptr) << call;
        EXPECT_EQ(fake().statistics().modules, 0U) << call;
    }
}

}  // namespace
}  // namespace railyard::cuda
