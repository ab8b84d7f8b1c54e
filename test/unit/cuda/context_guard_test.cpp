#include "cuda/context_guard.h"

#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

using CudaContext = OnFakeDriver;

TEST_F(CudaContext, IsCurrentInTheScopeAlone) {
    const ContextPtr first = context(0), second = context(1);
    {
        const ContextGuard outer(*first);
        ASSERT_TRUE(outer.pushed());
        EXPECT_EQ(current(), first->get());
        {
            const ContextGuard inner(*second);
            EXPECT_EQ(current(), second->get());
            std::thread([&] { EXPECT_EQ(current(), nullptr); }).join();
        }
        EXPECT_EQ(current(), first->get());
    }
    EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaContext, ThatIsGoneChangesNothing) {
    const ContextPtr held = context(0);
    CUcontext gone = nullptr;
    {
        const ContextPtr other = context(1);
        gone = other->get();
    }
    const ContextGuard outer(*held);
    {
        const ContextGuard guard(driver(), gone);
        EXPECT_FALSE(guard.pushed());
        EXPECT_EQ(current(), held->get());
        EXPECT_CONTAINS(error_of([&] { guard.require(); }).second, "CUDA_ERROR_INVALID_CONTEXT");
    }
    EXPECT_EQ(current(), held->get());
}

TEST_F(CudaContext, PrimaryOnesAreSharedAndGivenBack) {
    const auto retains = fake().statistics().primary_retains;
    {
        const ContextPtr one = context(2), two = context(2);
        EXPECT_EQ(one->get(), two->get());
        EXPECT_EQ(one->ordinal(), 2);
        EXPECT_EQ(fake().statistics().primary_retains, retains + 2);
    }
    EXPECT_EQ(fake().statistics().primary_retains, retains);
}

TEST_F(CudaContext, FailuresAreErrors) {
    EXPECT_EQ(error_of([&] { static_cast<void>(context(3)); }).first, Status::invalid_param);
    EXPECT_EQ(error_of([&] { static_cast<void>(context(-1)); }).first, Status::invalid_param);
    fake().fail("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_OUT_OF_MEMORY);
    const auto [status, message] = error_of([&] { static_cast<void>(context(0)); });
    EXPECT_EQ(status, Status::backend);
    EXPECT_EQ(message, "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

}  // namespace
}  // namespace railyard::cuda
