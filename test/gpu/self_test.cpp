// Transfers of an agent to itself, where either side is GPU memory: copies by the device.
#include "suite.h"
#include "two_sides.h"

namespace railyard::gpu {
namespace {

using host::Op;

class ToOneself : public OnGpu, public testing::WithParamInterface<std::tuple<bool, bool, Op>> {
  protected:
    static constexpr std::size_t length = 3 << 20;

    void SetUp() override {
        OnGpu::SetUp();
        const auto& [mine, theirs, op] = GetParam();
        agent = std::make_unique<host::Agent>(agent_config("alone"));
        local = std::make_unique<Buffer>(mine, length);
        remote = std::make_unique<Buffer>(theirs, length);
        agent->register_memory(local->range());
        agent->register_memory(remote->range());
    }
    void TearDown() override {
        agent.reset();
        local.reset();
        remote.reset();
        OnGpu::TearDown();
    }

    [[nodiscard]] Buffer& source() { return std::get<2>(GetParam()) == Op::write ? *local : *remote; }
    [[nodiscard]] Buffer& sink() { return std::get<2>(GetParam()) == Op::write ? *remote : *local; }

    /// Moves the ranges, each of which lies at the same offset on either side.
    void move(const std::vector<std::pair<std::size_t, std::size_t>>& ranges) {
        std::vector<host::Range> here, there;
        for (const auto& [offset, size] : ranges) {
            here.push_back(local->range(offset, size));
            there.push_back(remote->range(offset, size));
        }
        host::Request request = agent->prepare(std::get<2>(GetParam()), here, there, "alone");
        for (std::uint64_t turn = 1; turn <= 3; ++turn) {
            const std::vector<std::byte> from = contents(turn, length), before = contents(turn + 100, length);
            source().put(from);
            sink().put(before);
            ASSERT_EQ(request.run(patience), Status::ok);
            std::vector<std::byte> wanted = before;
            for (const auto& [offset, size] : ranges)
                std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), size,
                            wanted.begin() + static_cast<std::ptrdiff_t>(offset));
            ASSERT_TRUE(sink().bytes() == wanted) << "turn " << turn;
            ASSERT_TRUE(source().bytes() == from) << "turn " << turn;
        }
    }

    std::unique_ptr<Buffer> local, remote;
    std::unique_ptr<host::Agent> agent;
};

TEST_P(ToOneself, OneDescriptorOfAnySize) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, std::size_t{1000003}, length - 7}) {
        SCOPED_TRACE(size);
        move({{3, size}});
    }
}

TEST_P(ToOneself, ManyDescriptors) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (std::size_t i = 0; i < 1000; ++i)
        ranges.emplace_back(i * 3001, 1 + i * 3);
    move(ranges);
}

using DeviceAllocations = OnGpu;

/// Allocations of the driver may adjoin, and it refuses a copy that goes from one into the next.
TEST_F(DeviceAllocations, ThatAdjoinAreCopiedEachByItself) {
    constexpr std::size_t length = 32 << 20, part = 1 << 20;
    const auto place = more_driver().set_adjoining;
    if (place != nullptr) place(1);
    Buffer lower(true, length), upper(true, length), other(true, length);
    if (place != nullptr) place(0);
    if (upper.range().address + length == lower.range().address) std::swap(lower, upper);
    if (lower.range().address + length != upper.range().address) GTEST_SKIP() << "they do not adjoin";
    host::Agent agent(agent_config("alone"));
    for (const Buffer* buffer : {&lower, &upper, &other})
        agent.register_memory(buffer->range());
    const std::vector<std::byte> sent = contents(1, length);
    other.put(sent);
    for (const Op op : {Op::read, Op::write}) {
        const std::vector<host::Range> here{lower.range(length - part, part), upper.range(0, part)};
        const std::vector<host::Range> there{other.range(0, part), other.range(part, part)};
        host::Request request = agent.prepare(op, here, there, "alone");
        ASSERT_EQ(request.run(patience), Status::ok);
    }
    const std::vector<std::byte> low = lower.bytes(), high = upper.bytes();
    EXPECT_TRUE(std::equal(low.end() - part, low.end(), sent.begin()));
    EXPECT_TRUE(std::equal(high.begin(), high.begin() + part, sent.begin() + part));
    EXPECT_TRUE(other.bytes() == sent);
}

std::string memories_of(const testing::TestParamInfo<std::tuple<bool, bool, Op>>& info) {
    const auto& [mine, theirs, op] = info.param;
    return std::string(op == Op::write ? "write" : "read") + (mine ? "_vram" : "_dram") +
           (theirs ? "_vram" : "_dram");
}

INSTANTIATE_TEST_SUITE_P(Device, ToOneself,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(Op::write, Op::read)),
                         memories_of);

}  // namespace
}  // namespace railyard::gpu
