// Transfers attached to a CUDA stream, with work before and behind them on it; and without a stream (the
// pool).
#include <deque>
#include <ostream>

#include "cuda/driver.h"
#include "suite.h"
#include "two_sides.h"

namespace railyard::gpu {
namespace {

using bench::GpuStream;
using bench::Layout;
using bench::SideMemory;
using host::Op;
using namespace std::chrono_literals;

/// So long that what does not wait for it comes first.
constexpr auto a_while = 30ms;

struct Case {
    std::string fabric;
    bool mem = true;
};

void PrintTo(const Case& one, std::ostream* out) {
    *out << one.fabric << (one.mem ? " vram" : " dram");
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const std::string& fabric : setup().fabrics) {
        all.push_back({fabric, true});
        all.push_back({fabric, false});
    }
    return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    std::string name = info.param.fabric + (info.param.mem ? "_vram" : "_dram");
    for (char& letter : name) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
    }
    return name;
}

class Streams : public OnGpu, public testing::WithParamInterface<Case> {
  protected:
    static constexpr Layout layout{200001, 5, 4};

    void SetUp() override {
        OnGpu::SetUp();
        sides = std::make_unique<TwoSides>(
            std::vector<std::string>{"--provider", GetParam().fabric, "--mem",
                                     GetParam().mem ? "vram" : "dram", "--target-mem", "vram", "--gpu",
                                     std::to_string(setup().gpu)},
            layout);
        other = std::make_unique<SideMemory>(bench::Place{true, setup().gpu}, sides->length());
    }
    void TearDown() override {
        sides.reset();
        other.reset();
        OnGpu::TearDown();
    }

    [[nodiscard]] std::uint64_t mine() const { return sides->memory().range().address; }

    /// On the stream: `to` gets what is in `from`; by a kernel where both are GPU memory.
    static void copy(const GpuStream& stream, std::uint64_t to, std::uint64_t from, std::size_t length) {
        if (GetParam().mem) return work().copy(stream, to, from, length);
        const cuda::ContextGuard guard(*gpu().context());
        gpu().require(gpu().driver().memcpy_async(to, from, length, stream.handle()), "cuMemcpyAsync");
    }
    static void copy_later(const GpuStream& stream, std::uint64_t to, std::uint64_t from,
                           std::size_t length) {
        work().spin(stream, a_while);
        copy(stream, to, from, length);
    }

    /// The initiator's memory where it is the host's, so that work on streams reaches it in its turn.
    [[nodiscard]] std::unique_ptr<Pinned> pin() {
        if (GetParam().mem) return nullptr;
        const std::span<std::byte> bytes = sides->memory().host_bytes();
        return std::make_unique<Pinned>(gpu(), bytes.data(), bytes.size());
    }

    std::unique_ptr<TwoSides> sides;
    std::unique_ptr<SideMemory> other;  ///< of the GPU: where kernels get data from and put it
};

TEST_P(Streams, WorkBeforeAWriteIsDoneBeforeItsBytesAreRead) {
    const auto pinned = pin();
    const OwnStream stream(work(), gpu());
    std::vector<host::Request> requests;
    for (unsigned slot = 0; slot < layout.window; ++slot)
        requests.push_back(sides->prepare(Op::write, slot, stream.custom_param()));
    for (std::uint64_t turn = 1; turn <= 3; ++turn) {
        sides->fill_target(turn, false);
        sides->memory().scrub_destination(layout, turn);
        other->fill_source(layout, turn);
        copy_later(stream, mine(), other->range().address, layout.bytes());
        for (host::Request& request : requests)
            ASSERT_EQ(request.post(), Status::in_progress);
        for (host::Request& request : requests)
            ASSERT_EQ(end_of(request), Status::ok);
        ASSERT_EQ(sides->check_target(), "") << "turn " << turn;
        work().finish(stream);
    }
}

TEST_P(Streams, WorkBehindAReadSeesItsData) {
    const auto pinned = pin();
    const OwnStream stream(work(), gpu());
    std::vector<host::Request> requests;
    for (unsigned slot = 0; slot < layout.window; ++slot)
        requests.push_back(sides->prepare(Op::read, slot, stream.custom_param()));
    for (std::uint64_t turn = 1; turn <= 3; ++turn) {
        sides->fill_target(turn, true);
        other->scrub_destination(layout, turn);
        copy_later(stream, mine(), other->range().address, layout.bytes());  // over what comes too early
        for (host::Request& request : requests)
            ASSERT_EQ(request.post(), Status::in_progress);
        copy(stream, other->range().address, mine(), layout.bytes());
        // Without one look at the requests: the stream alone goes on when the data is there.
        work().finish(stream);
        ASSERT_EQ(other->check_destination(layout, turn, bench::Corrupt::none), std::nullopt)
            << "turn " << turn;
        for (host::Request& request : requests)
            ASSERT_EQ(end_of(request), Status::ok);
    }
}

TEST_P(Streams, ManyStreamsManyReposts) {
    std::deque<OwnStream> streams;
    std::vector<host::Request> requests;
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        streams.emplace_back(work(), gpu());
        requests.push_back(sides->prepare(Op::write, slot, streams.back().custom_param()));
    }
    sides->fill_target(1, false);
    sides->memory().fill_source(layout, 1);
    for (unsigned turn = 0; turn < 25; ++turn) {
        for (unsigned slot = 0; slot < layout.window; ++slot) {
            work().spin(streams[slot], std::chrono::microseconds(50 * slot));
            ASSERT_EQ(requests[slot].post(), Status::in_progress) << turn;
        }
        for (host::Request& request : requests)
            ASSERT_EQ(end_of(request), Status::ok) << turn;
    }
    EXPECT_EQ(sides->check_target(), "");
    requests.clear();
    for (const OwnStream& stream : streams)
        work().finish(stream);
}

TEST_P(Streams, WhatIsReleasedBeforeItsTurnHoldsNoStream) {
    const OwnStream stream(work(), gpu());
    Gate gate(work(), gpu());
    gate.hold(stream);
    {
        host::Request request = sides->prepare(Op::read, 0, stream.custom_param());
        ASSERT_EQ(request.post(), Status::in_progress);
        ASSERT_EQ(request.poll(), Status::in_progress) << "its stream is not there yet";
    }
    gate.open();
    work().finish(stream);
}

TEST_P(Streams, WhatIsInFlightWhenTheAgentGoesHoldsNoStream) {
    const OwnStream stream(work(), gpu());
    work().spin(stream, a_while);
    host::Request request = sides->prepare(Op::read, 0, stream.custom_param());
    ASSERT_EQ(request.post(), Status::in_progress);
    sides.reset();
    work().finish(stream);
}

TEST_P(Streams, WithoutOneTheProgramSynchronisesAndThePostGoesAtOnce) {
    const auto pinned = pin();
    const OwnStream stream(work(), gpu());
    for (std::uint64_t turn = 1; turn <= 3; ++turn) {
        sides->fill_target(turn, false);
        other->fill_source(layout, turn);
        copy_later(stream, mine(), other->range().address, layout.bytes());
        work().finish(stream);
        for (unsigned slot = 0; slot < layout.window; ++slot) {
            host::Request request = sides->prepare(Op::write, slot);
            ASSERT_EQ(request.run(patience), Status::ok);
        }
        ASSERT_EQ(sides->check_target(), "") << "turn " << turn;
    }
}

INSTANTIATE_TEST_SUITE_P(TwoProcesses, Streams, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace railyard::gpu
