// Immediate data for a target that does not look, over NICs that go on by themselves (SIMEFA_THREADED=1).
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "rail/fabric_rail.h"

namespace railyard::test {
namespace {

constexpr std::uint64_t patience_ns = 5'000'000'000;

struct CountingSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
    void on_immediate(std::uint32_t) noexcept override { ++immediates; }
    std::size_t immediates = 0;
};

std::shared_ptr<const fabric::Device> nic(std::size_t index) {
    auto devices = fabric::discover("efa-direct", fabric::parse_device_filter(""));
    return std::make_shared<const fabric::Device>(std::move(devices.at(index)));
}

MemoryRange range_of(const std::vector<char>& bytes) {
    MemoryRange range;
    range.address = reinterpret_cast<std::uint64_t>(bytes.data());
    range.length = bytes.size();
    return range;
}

/// More than the target's queue holds of operations of its own.
TEST(UnreadImmediates, OverrunNoQueueInAMoment) {
    constexpr std::uint32_t count = 8000, piece = 8;
    CountingSink here, there;
    FabricRail writer("writer", nic(0), here, {false, patience_ns}),
        target("target", nic(1), there, {false, patience_ns});
    const PeerAddress to_target = writer.insert_peer(target.address());
    target.admit_sender(writer.sender().address);
    const std::vector<char> source(count * piece), destination(count * piece);
    auto from = writer.register_memory(range_of(source));
    auto to = target.register_memory(range_of(destination));
    Path path;
    path.admit(writer.sender_generation());
    const Route route{&writer, to_target, &path, true, {from.descriptor}, {{to.key, to.address_base}}};
    Work work;
    work.immediate = 0;
    for (std::uint64_t i = 0; i < count; ++i)
        work.chunks.push_back(
            {range_of(source).address + i * piece, range_of(destination).address + i * piece, piece, 0, 0});
    work.lanes.emplace_back(work, 0, count);
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &route;
    work.arm(1, nullptr);
    submission.rearm();
    writer.submit(submission);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!work.done() && std::chrono::steady_clock::now() < limit)
        writer.progress();
    ASSERT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::ok);
    while (there.immediates < count && std::chrono::steady_clock::now() < limit)
        target.progress();
    EXPECT_EQ(there.immediates, count);
    EXPECT_FALSE(target.sender().address.empty()) << "its queue has been overrun";
    writer.deregister_memory(from);
    target.deregister_memory(to);
}

}  // namespace
}  // namespace railyard::test
