// Immediate data of writes: what the peer's sink hears, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "engine_pair.h"
#include "fabric/op_context.h"

namespace railyard::test {
namespace {

class ImmediateTest : public testing::TestWithParam<Fabric> {};

/// Looks at the memory in the moment in which it hears of it.
struct Hearer final : fabric::ImmediateSink {
    void on_immediate(std::uint32_t data) noexcept override {
        const std::lock_guard lock(mutex);
        ++heard[data];
        const std::size_t piece = data - first;
        if (piece >= pieces) return;
        const auto* const begin = target->data() + piece * length;
        torn += std::any_of(begin, begin + length, [&](unsigned char byte) { return byte != wanted; });
    }
    std::mutex mutex;
    std::map<std::uint32_t, int> heard;
    std::uint32_t first = 0;
    std::size_t pieces = 0, length = 0;
    const std::vector<unsigned char>* target = nullptr;
    unsigned char wanted = 0;
    int torn = 0;
};

TEST_P(ImmediateTest, FollowsTheBytesOfEachDescriptor) {
    Hearer hearer;
    EnginePair pair(GetParam());
    pair.b->hear_immediates(hearer);
    constexpr std::size_t pieces = 37, length = 20'000;
    Buffer source(*pair.a, pieces * length), target(*pair.b, pieces * length);
    const auto published = pair.publish(target);
    std::vector<LocalDescriptor> local;
    std::vector<RemoteDescriptor> remote;
    for (std::size_t i = 0; i < pieces; ++i) {
        local.push_back({source.address() + i * length, length, &source.region});
        remote.push_back({target.address() + i * length, length, &published});
    }
    Transfer* const transfer = pair.a->prepare(Operation::write, local, remote, "beta", std::nullopt);
    hearer.pieces = pieces;
    hearer.length = length;
    hearer.target = &target.bytes;
    for (unsigned char round = 1; round <= 3; ++round) {
        std::ranges::fill(source.bytes, round);
        {
            const std::lock_guard lock(hearer.mutex);
            hearer.heard.clear();
            hearer.first = 0x7fffff00u + round * 1000u;
            hearer.wanted = round;
        }
        ASSERT_TRUE(pair.a->carry_immediates(*transfer, pieces, hearer.first));
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        ASSERT_TRUE(pair.until([&] {
            const std::lock_guard lock(hearer.mutex);
            return hearer.heard.size() >= pieces;
        })) << "heard of "
            << hearer.heard.size();
        const std::lock_guard lock(hearer.mutex);
        for (std::size_t i = 0; i < pieces; ++i)
            EXPECT_EQ(hearer.heard[hearer.first + static_cast<std::uint32_t>(i)], 1) << i;
        EXPECT_EQ(hearer.heard.size(), pieces);
    }
    EXPECT_EQ(hearer.torn, 0);
    pair.a->release(transfer);
}

/// For who is waited for: what comes is heard of before anything else is done.
TEST_P(ImmediateTest, IsHeardOfInAPassOverTheRailsAlone) {
    if (GetParam().progress_thread) GTEST_SKIP() << "the thread does the rest, too";
    struct Chore final : EngineChore {
        bool run() noexcept override {
            ++runs;
            return false;
        }
        int runs = 0;
    } chore;
    Hearer hearer;
    EnginePair pair(GetParam());
    pair.b->hear_immediates(hearer);
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto published = pair.publish(target);
    const LocalDescriptor local{source.address(), 4096, &source.region};
    const RemoteDescriptor remote{target.address(), 4096, &published};
    Transfer* const transfer = pair.a->prepare(Operation::write, {&local, 1}, {&remote, 1}, "beta", {});
    ASSERT_EQ(pair.run(*transfer), Status::ok);  // they know each other
    ASSERT_TRUE(pair.a->carry_immediates(*transfer, 1, 7));
    pair.b->set_chore(&chore);
    pair.a->post(*transfer);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (hearer.heard.empty() && std::chrono::steady_clock::now() < end) {
        pair.a->progress();
        pair.b->progress_rails();
    }
    EXPECT_EQ(hearer.heard[7], 1);
    EXPECT_EQ(chore.runs, 0);
    pair.b->progress_rest();
    EXPECT_GE(chore.runs, 1);  // once more where peers were looked at
    pair.b->set_chore(nullptr);
    ASSERT_EQ(pair.wait(*transfer), Status::ok);
    pair.a->release(transfer);
}

/// Nobody listens, and nothing is lost by it: neither receives nor messages.
TEST_P(ImmediateTest, IsDroppedWhereNobodyListens) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto published = pair.publish(target);
    const LocalDescriptor local{source.address(), 4096, &source.region};
    const RemoteDescriptor remote{target.address(), 4096, &published};
    Transfer* const transfer = pair.a->prepare(Operation::write, {&local, 1}, {&remote, 1}, "beta", "told");
    ASSERT_TRUE(pair.a->carry_immediates(*transfer, 1, 7));
    constexpr std::size_t rounds = 100;  // more than there are receive buffers
    for (std::size_t i = 0; i < rounds; ++i)
        ASSERT_EQ(pair.run(*transfer), Status::ok) << i;
    EXPECT_EQ(pair.notifications(rounds).size(), rounds);
    EXPECT_FALSE(pair.b->has_notifications());
    pair.a->release(transfer);
}

TEST_P(ImmediateTest, IsRefusedWhereDescriptorsAreNotOnePieceEach) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 8192), target(*pair.b, 8192);
    const auto published = pair.publish(target);
    const std::vector<LocalDescriptor> local{{source.address(), 4096, &source.region},
                                             {source.address() + 4096, 0, &source.region}};
    const std::vector<RemoteDescriptor> remote{{target.address(), 4096, &published},
                                               {target.address() + 4096, 0, &published}};
    Transfer* transfer = pair.a->prepare(Operation::write, local, remote, "beta", std::nullopt);
    EXPECT_FALSE(pair.a->carry_immediates(*transfer, 2, 0));  // nothing travels for the second one
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    pair.a->release(transfer);
    transfer = pair.a->prepare(Operation::read, {local.data(), 1}, {remote.data(), 1}, "beta", std::nullopt);
    EXPECT_FALSE(pair.a->carry_immediates(*transfer, 1, 0));
    pair.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ImmediateTest,
                         testing::ValuesIn(fabrics({{"tcp", 1, false},
                                                    {"tcp", 3, true},
                                                    {"tcp;ofi_rxm", 1, false},
                                                    {"shm", 1, false},
                                                    {"shm", 2, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
