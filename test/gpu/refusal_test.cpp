// What is refused, in the driver's own terms: addresses, devices, kinds of memory, streams.
#include <chrono>
#include <thread>

#include "cuda/driver.h"
#include "suite.h"

namespace railyard::gpu {
namespace {

using host::Op;
using host::Range;

class Refusals : public OnGpu {
  protected:
    static constexpr std::size_t length = 4 << 20;

    void SetUp() override {
        OnGpu::SetUp();
        host::AgentConfig config = agent_config("alone");
        config.params["connect_timeout_ms"] = "500";  // how long a deregistration waits for transfers
        agent = std::make_unique<host::Agent>(config);
    }
    void TearDown() override {
        agent.reset();
        OnGpu::TearDown();
    }

    [[nodiscard]] static std::uint64_t device() { return std::uint64_t{setup().gpu} + 1; }
    [[nodiscard]] Status refusal(const Range& range) {
        return refusal_of([&] { agent->register_memory(range); });
    }
    /// A transfer within `buffer`, on whatever `custom_param` says.
    [[nodiscard]] host::Request prepare(const Buffer& buffer, std::string custom_param) {
        const Range from = buffer.range(0, 4096), to = buffer.range(8192, 4096);
        return agent->prepare(Op::write, {&from, 1}, {&to, 1}, "alone", std::nullopt,
                              std::move(custom_param));
    }
    /// The agent still works.
    void expect_works() {
        const Buffer buffer(true, length);
        agent->register_memory(buffer.range());
        EXPECT_EQ(prepare(buffer, {}).run(patience), Status::ok);
        agent->deregister_memory(buffer.range());
    }
    [[nodiscard]] static int gpu_count() {
        int count = 0;
        EXPECT_EQ(gpu().driver().device_get_count(&count), CUDA_SUCCESS);
        return count;
    }

    std::unique_ptr<host::Agent> agent;
};

TEST_F(Refusals, WhatIsNoMemoryOfTheGpu) {
    const std::vector<std::byte> plain(length);
    EXPECT_EQ(refusal({reinterpret_cast<std::uint64_t>(plain.data()), length, device()}),
              Status::invalid_param);
    EXPECT_EQ(refusal({4096, 4096, device()}), Status::invalid_param);
    const Buffer buffer(true, length);
    Range beyond = buffer.range();
    beyond.length += std::size_t{1} << 40;
    EXPECT_EQ(refusal(beyond), Status::invalid_param);
    EXPECT_EQ(refusal({buffer.range().address, length, device() + 100}), Status::invalid_param)
        << "no such GPU";
    expect_works();
}

TEST_F(Refusals, MemoryThatWasFreed) {
    Range gone;
    {
        const Buffer buffer(true, length);
        gone = buffer.range();
    }
    EXPECT_EQ(refusal(gone), Status::invalid_param);
    expect_works();
}

/// Memory that is registered again is known by what it was known by, and other memory at its address is not.
TEST_F(Refusals, WhatAnEarlierAllocationWasKnownBy) {
    std::string known;
    std::uint64_t address = 0;
    {
        const Buffer buffer(true, length);
        address = buffer.range().address;
        agent->register_memory(buffer.range());
        known = agent->metadata();
        agent->deregister_memory(buffer.range());
        EXPECT_NE(agent->metadata(), known);
        agent->register_memory(buffer.range());
        EXPECT_EQ(agent->metadata(), known);
        agent->deregister_memory(buffer.range());
    }
    const Buffer other(true, length);  // the fake driver never gives an address twice
    agent->register_memory(other.range());
    EXPECT_NE(agent->metadata(), known) << (other.range().address == address ? "at the same address" : "");
}

TEST_F(Refusals, MemoryOfAnotherGpu) {
    if (gpu_count() < 2) GTEST_SKIP() << "one GPU";
    const Buffer buffer(true, length);
    const std::uint64_t other = setup().gpu == 0 ? 2 : 1;
    EXPECT_EQ(refusal({buffer.range().address, length, other}), Status::invalid_param);
    expect_works();
}

TEST_F(Refusals, ManagedMemory) {
    const cuda::ContextGuard guard(*gpu().context());
    CUdeviceptr address = 0;
    ASSERT_NE(more_driver().mem_alloc_managed, nullptr);
    ASSERT_EQ(more_driver().mem_alloc_managed(&address, 1 << 20, 1), CUDA_SUCCESS);
    EXPECT_EQ(refusal({address, 1 << 20, device()}), Status::not_supported);
    ASSERT_EQ(gpu().driver().mem_free(address), CUDA_SUCCESS);
}

TEST_F(Refusals, PinnedHostMemoryAsVram) {
    const cuda::ContextGuard guard(*gpu().context());
    void* pointer = nullptr;
    ASSERT_EQ(gpu().driver().mem_host_alloc(&pointer, length, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    const Range range{reinterpret_cast<std::uint64_t>(pointer), length, 0};
    EXPECT_EQ(refusal({range.address, length, device()}), Status::invalid_param);
    EXPECT_EQ(refusal(range), Status::ok) << "it is host memory";
    agent->deregister_memory(range);
    ASSERT_EQ(gpu().driver().mem_free_host(pointer), CUDA_SUCCESS);
}

TEST_F(Refusals, StreamsThatAreNone) {
    const Buffer buffer(true, length);
    agent->register_memory(buffer.range());
    const auto refused = [&](std::string custom_param) {
        return refusal_of([&] { (void)prepare(buffer, std::move(custom_param)); });
    };
    EXPECT_EQ(refused("1234567"), Status::invalid_param) << "not eight bytes";
    EXPECT_EQ(refused("123456789"), Status::invalid_param) << "not eight bytes";
    const std::uint64_t nowhere = 0x10;
    EXPECT_EQ(refused({reinterpret_cast<const char*>(&nowhere), 8}), Status::invalid_param)
        << "no memory is there";
    EXPECT_EQ(prepare(buffer, {}).run(patience), Status::ok);
    const OwnStream stream(work(), gpu());
    EXPECT_EQ(prepare(buffer, stream.custom_param()).run(patience), Status::ok);
    work().finish(stream);
}

TEST_F(Refusals, AStreamOfAnotherGpu) {
    if (gpu_count() < 2) GTEST_SKIP() << "one GPU";
    bench::Gpu other(setup().gpu == 0 ? 1 : 0);
    const bench::GpuStream stream(other);
    const Buffer buffer(true, length);
    agent->register_memory(buffer.range());
    EXPECT_EQ(refusal_of([&] { (void)prepare(buffer, stream.custom_param()); }), Status::invalid_param);
}

TEST_F(Refusals, AStreamUnderCapture) {
    const Buffer buffer(true, length);
    agent->register_memory(buffer.range());
    const OwnStream stream(work(), gpu());
    host::Request request = prepare(buffer, stream.custom_param());
    const cuda::ContextGuard guard(*gpu().context());
    ASSERT_EQ(more_driver().stream_begin_capture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    EXPECT_EQ(request.post(), Status::not_supported);
    CUgraph graph = nullptr;
    ASSERT_EQ(more_driver().stream_end_capture(stream.handle(), &graph), CUDA_SUCCESS)
        << "the capture was spoilt";
    if (graph != nullptr) more_driver().graph_destroy(graph);
    EXPECT_EQ(request.run(patience), Status::ok) << "after the capture";
    work().finish(stream);
}

TEST_F(Refusals, DeregistrationUnderATransferThatWaitsForItsStream) {
    const Buffer buffer(true, length);
    agent->register_memory(buffer.range());
    const OwnStream stream(work(), gpu());
    Gate gate(work(), gpu());
    gate.hold(stream);
    host::Request request = prepare(buffer, stream.custom_param());
    ASSERT_EQ(request.post(), Status::in_progress);
    EXPECT_EQ(refusal_of([&] { agent->deregister_memory(buffer.range()); }), Status::not_allowed);
    gate.open();
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (request.poll() == Status::in_progress && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_EQ(request.poll(), Status::ok);
    agent->deregister_memory(buffer.range());
    EXPECT_EQ(request.post(), Status::invalid_param) << "its memory is no longer registered";
}

}  // namespace
}  // namespace railyard::gpu
