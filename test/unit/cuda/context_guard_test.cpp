#include "cuda/context_guard.h"

#include <dlfcn.h>

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

TEST_F(CudaContext, CallsUnderItDisturbNoCapture) {
    const auto begin = reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamBeginCapture_v2"));
    const auto end = reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamEndCapture"));
    const auto destroy =
        reinterpret_cast<CUresult (*)(CUgraph)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphDestroy"));
    const ContextPtr held = context(0);
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CUgraph graph = nullptr;
    {
        const ContextGuard guard(*held);
        ASSERT_EQ(driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        ASSERT_EQ(driver().event_create(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    }
    for (const bool guarded : {true, false}) {
        ASSERT_EQ(driver().ctx_push_current(held->get()), CUDA_SUCCESS);
        ASSERT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        std::thread([&] {
            std::unique_ptr<ContextGuard> guard;
            if (guarded) guard = std::make_unique<ContextGuard>(*held);
            EXPECT_EQ(driver().event_query(event),
                      guarded ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            if (guarded) {
                const ContextGuard nested(*held);
                EXPECT_EQ(driver().event_query(event), CUDA_SUCCESS);
            }
            guard.reset();
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
            EXPECT_EQ(driver().thread_exchange_stream_capture_mode(&mode), CUDA_SUCCESS);
            EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "the thread's mode was not put back";
        }).join();
        EXPECT_EQ(end(stream, &graph), guarded ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        if (guarded) {
            EXPECT_EQ(destroy(graph), CUDA_SUCCESS);
        }
        CUcontext popped = nullptr;
        EXPECT_EQ(driver().ctx_pop_current(&popped), CUDA_SUCCESS);
    }
    const ContextGuard guard(*held);
    EXPECT_EQ(driver().event_destroy(event), CUDA_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(stream), CUDA_SUCCESS);
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
