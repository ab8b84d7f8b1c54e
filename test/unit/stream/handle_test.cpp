// Which 8 bytes are a stream.
#include "stream/stream_handle.h"

#include <cstring>

#include "manager/gpus.h"
#include "manager/memory_probe.h"
#include "stream_pair.h"

namespace railyard::test {
namespace {

Params params(const std::string& gpu_devices = "") {
    return Params::parse({{"gpu_devices", gpu_devices}}, [](const char*) -> const char* { return nullptr; });
}

std::string as_param(std::uint64_t handle) {
    return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
}

bool is_mapped(const std::string& param) {
    std::uint64_t handle = 0;
    std::memcpy(&handle, param.data(), sizeof(handle));
    return railyard::is_mapped(handle, 1);
}

class StreamHandle : public cuda::OnFakeDriver {
  protected:
    [[nodiscard]] std::pair<Status, std::string> refusal(
        Gpus& gpus, const std::string& param, const std::vector<std::uint64_t>& memory = {}) const {
        return cuda::error_of([&] { static_cast<void>(find_stream(gpus, param, memory)); });
    }
};

TEST_F(StreamHandle, LeadsToItsContextAndGpu) {
    Gpus gpus(params());
    const ProgramStream stream(context(1));
    for (const std::vector<std::uint64_t>& memory : {std::vector<std::uint64_t>{}, {1}, {1, 1}}) {
        const StreamPlace place = find_stream(gpus, stream.param(), memory);
        EXPECT_EQ(place.handle, stream.handle());
        EXPECT_EQ(place.context, stream.context()->get());
        EXPECT_EQ(place.gpu->ordinal(), 1);
        EXPECT_FALSE(place.per_thread());
    }
}

/// Of a program that uses another GPU than the first, with host memory: a context takes memory of its GPU.
TEST_F(StreamHandle, OfTheCallersContextNeedsNoOther) {
    Gpus gpus(params());
    const ProgramStream stream(context(1));
    const ContextGuard guard(*stream.context());
    const auto before = fake().statistics();
    EXPECT_EQ(find_stream(gpus, stream.param(), {}).gpu->ordinal(), 1);
    EXPECT_EQ(fake().statistics().contexts, before.contexts);
    EXPECT_EQ(fake().statistics().primary_retains, before.primary_retains);
    EXPECT_EQ(current(), stream.context()->get());
}

TEST_F(StreamHandle, OfAnotherLengthIsRefused) {
    Gpus gpus(params());
    for (const std::size_t length : {1, 4, 7, 9, 16}) {
        const auto [status, message] = refusal(gpus, std::string(length, '\1'));
        EXPECT_EQ(status, Status::invalid_param) << length;
        EXPECT_CONTAINS(message, "customParam has " + std::to_string(length) + " bytes");
    }
}

TEST_F(StreamHandle, ThatIsNoneIsRefused) {
    Gpus gpus(params());
    std::uint64_t local = 0;
    std::string destroyed;
    {
        const ProgramStream stream(context());
        destroyed = stream.param();
    }
    for (const std::string& param : {as_param(3), as_param(0xDEAD'0000'0000), as_param(UINT64_MAX - 4095),
                                     as_param(reinterpret_cast<std::uint64_t>(&local)), destroyed}) {
        const auto [status, message] = refusal(gpus, param);
        EXPECT_EQ(status, Status::invalid_param) << message;
        EXPECT_CONTAINS(message, "stream 0x");
        // A real driver follows the pointer.
        EXPECT_EQ(message.find("is no stream of this process") == std::string::npos, is_mapped(param));
    }
}

TEST_F(StreamHandle, OfAnotherGpuIsRefused) {
    Gpus gpus(params("0,1"));
    const ProgramStream stream(context(1)), forbidden(context(2));
    EXPECT_CONTAINS(refusal(gpus, stream.param(), {0}).second, "is on GPU 1, its memory on GPU 0");
    EXPECT_EQ(refusal(gpus, stream.param(), {0}).first, Status::invalid_param);
    EXPECT_CONTAINS(refusal(gpus, stream.param(), {1, 0}).second, "the memory of one GPU");
    EXPECT_CONTAINS(refusal(gpus, forbidden.param()).second, "is on GPU 2, which gpu_devices does not allow");
    EXPECT_EQ(refusal(gpus, forbidden.param()).first, Status::invalid_param);
}

TEST_F(StreamHandle, OfADefaultStreamIsTheRightGpus) {
    Gpus gpus(params());
    const ContextPtr held = context(1);
    for (const std::uint64_t handle : {0, 1, 2}) {
        EXPECT_EQ(find_stream(gpus, as_param(handle), {}).gpu->ordinal(), 0);
        EXPECT_EQ(find_stream(gpus, as_param(handle), {2}).gpu->ordinal(), 2);
        EXPECT_EQ(find_stream(gpus, as_param(handle), {}).per_thread(), handle == 2);
        const ContextGuard guard(*held);
        const StreamPlace place = find_stream(gpus, as_param(handle), {});
        EXPECT_EQ(place.gpu->ordinal(), 1);
        EXPECT_EQ(place.context, held->get());
        EXPECT_EQ(find_stream(gpus, as_param(handle), {2}).gpu->ordinal(), 2);
        EXPECT_EQ(current(), held->get());
    }
}

TEST_F(StreamHandle, WhatTheDriverRefusesIsAnError) {
    Gpus gpus(params());
    const ProgramStream stream(context());
    fake().fail("cuStreamGetCtx", 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(refusal(gpus, stream.param()).first, Status::not_supported);
    fake().fail("cuCtxGetDevice", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CONTAINS(refusal(gpus, stream.param()).second, "cuCtxGetDevice");
    EXPECT_EQ(refusal(gpus, stream.param()).first, Status::ok);
}

TEST_F(StreamHandle, NeedsADriverThatWritesValues) {
    fake().fail("missing cuStreamWriteValue64", 0, CUDA_ERROR_NOT_FOUND);
    Gpus gpus(params());
    const ProgramStream stream(context());
    const auto [status, message] = refusal(gpus, stream.param());
    EXPECT_EQ(status, Status::not_supported);
    EXPECT_CONTAINS(message, "CUDA 11.7");
}

TEST_F(StreamHandle, AFailedAttachmentLeavesNothing) {
    const ProgramStream stream(context());
    for (const char* call : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuEventCreate"}) {
        StreamPair side(false);
        Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
        const auto before = fake().statistics();
        fake().fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
        const auto [status, message] = cuda::error_of(
            [&] { static_cast<void>(side.prepare(Operation::write, source, target, stream)); });
        EXPECT_EQ(status, Status::backend) << call;
        EXPECT_CONTAINS(message, call);
        EXPECT_EQ(fake().statistics().events, before.events);
        Transfer* transfer = side.prepare(Operation::write, source, target, stream);
        EXPECT_EQ(side.pair.run(*transfer), Status::ok) << call;
        side.pair.a->release(transfer);
    }
}

}  // namespace
}  // namespace railyard::test
