// Sources and targets that come, go, and open again: who is told apart, and what is kept of before.
#include <algorithm>
#include <atomic>
#include <thread>

#include "flow_test.h"

namespace railyard::flow::test {
namespace {

TEST_P(FlowTest, SourcesAreToldApart) {
    Target target(instance_, GetParam(), ring_size, 5000);
    std::vector<std::unique_ptr<Initiator>> initiators;
    for (int i = 0; i < 3; ++i) {
        initiators.push_back(std::make_unique<Initiator>(instance_, GetParam(), ring_size, 5000));
        initiators.back()->add(target);
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
        for (std::uint32_t n = 0; n <= i; ++n) {
            initiators[i]->send(i, static_cast<unsigned char>(10 * i + n + 1));
            const ryf_grain grain = target.next();
            EXPECT_EQ(grain.index, i);
            EXPECT_EQ(grain.source, i);
            EXPECT_TRUE(target.ring.holds(i, static_cast<unsigned char>(10 * i + n + 1)));
        }
    }
    initiators[1].reset();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    ryf_grain grain{};
    while (target.sources().at(1).connected && std::chrono::steady_clock::now() < end)
        EXPECT_EQ(ryf_target_try_new_grain(target.handle, &grain), RYF_ERR_NOT_READY);
    const auto sources = target.sources();
    ASSERT_EQ(sources.size(), 3u);
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(sources[i].id, i);
        EXPECT_EQ(sources[i].grains, i + 1);
        EXPECT_EQ(sources[i].connected, i != 1);
    }
}

TEST_P(FlowTest, OneSourceTooManyIsRefusedWithTheReason) {
    constexpr std::size_t most = 16;
    Target target(instance_, GetParam(), 1, 1000);
    std::vector<std::unique_ptr<Initiator>> initiators;
    for (std::size_t i = 0; i < most; ++i) {
        initiators.push_back(std::make_unique<Initiator>(instance_, GetParam(), 1, 1000));
        initiators.back()->add(target);
    }
    Initiator late(instance_, GetParam(), 1, 1000);
    ASSERT_RYF(ryf_initiator_add_target(late.handle, target.info));
    EXPECT_EQ(late.settle(), RYF_ERR_DISCONNECTED);
    EXPECT_NE(std::string(ryf_last_error()).find("16 sources"), std::string::npos) << ryf_last_error();
    initiators[5]->send(0, 1);
    EXPECT_EQ(target.next().source, 5u);
    ASSERT_RYF(ryf_initiator_remove_target(initiators[5]->handle, target.info));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (target.sources().at(5).connected && std::chrono::steady_clock::now() < end) {
    }
    late.add(target);
    EXPECT_EQ(target.sources().at(5).grains, 0u) << "another source";
    late.send(0, 2);
    const ryf_grain grain = target.next();
    EXPECT_EQ(grain.source, 5u);
    EXPECT_EQ(grain.round, 1u);
    EXPECT_TRUE(target.ring.holds(0, 2));
}

TEST_P(FlowTest, TargetsComeAndGo) {
    Initiator initiator(instance_, GetParam(), 2, 5000);
    Target first(instance_, GetParam(), 2, 5000);
    EXPECT_EQ(ryf_initiator_transfer_grain(initiator.handle, 0), RYF_ERR_NOT_FOUND);
    initiator.add(first);
    EXPECT_EQ(ryf_initiator_add_target(initiator.handle, first.info), RYF_ERR_EXISTS);
    initiator.send(0, 1);
    EXPECT_EQ(first.next().round, 1u);
    Target second(instance_, GetParam(), 2, 5000);
    initiator.add(second);
    EXPECT_RYF(ryf_initiator_remove_target(initiator.handle, first.info));
    EXPECT_EQ(ryf_initiator_remove_target(initiator.handle, first.info), RYF_ERR_NOT_FOUND);
    initiator.send(0, 2);
    EXPECT_EQ(second.next().round, 1u);
    EXPECT_TRUE(second.ring.holds(0, 2));
    EXPECT_TRUE(first.ring.holds(0, 1));
    initiator.add(first);  // anew
    initiator.send(0, 3);
    EXPECT_EQ(first.next().round, 1u);
    EXPECT_EQ(second.next().round, 2u);
    EXPECT_TRUE(first.ring.holds(0, 3));
}

/// However messages overtake each other, no source is left behind that will never take its leave.
TEST_P(FlowTest, ATargetThatIsTakenAwayAtOnceKeepsNoSource) {
    Target target(instance_, GetParam(), 2, 5000);
    Initiator initiator(instance_, GetParam(), 2, 5000);
    const auto connected = [&] {
        const auto sources = target.sources();
        return std::any_of(sources.begin(), sources.end(),
                           [](const auto& source) { return source.connected; });
    };
    for (int i = 0; i < 100; ++i) {
        ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
        if (i % 10 == 9) {
            ASSERT_RYF(initiator.settle());
        }
        ASSERT_RYF(ryf_initiator_remove_target(initiator.handle, target.info));
        const auto begun = std::chrono::steady_clock::now();
        bool left = false;
        // For a while even then: what is late is on its way.
        for (auto taken = begun - begun;
             !(left && taken > std::chrono::milliseconds(5)) && taken < std::chrono::seconds(5);
             taken = std::chrono::steady_clock::now() - begun)
            left = !connected();
        ASSERT_TRUE(left) << "after " << i;
    }
}

/// What is late of the opening before is not taken for grains of this one, which would be announced early, or
/// never.
TEST_P(FlowTest, OpeningsAreKeptApart) {
    constexpr std::size_t many = 400, small = 4096;
    Target target(instance_, GetParam(), many, small);
    Initiator initiator(instance_, GetParam(), many, small);
    initiator.add(target);
    ryf_grain grain{};
    for (unsigned char round = 1; round <= 10; ++round) {
        for (std::uint32_t i = 0; i < many; ++i)
            ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        if (round % 2) {
            ASSERT_RYF(initiator.settle());
        }
        ASSERT_RYF(ryf_initiator_remove_target(initiator.handle, target.info));
        initiator.add(target);
        while (ryf_target_try_new_grain(target.handle, &grain) == RYF_OK) {
        }
        std::vector<bool> seen(many);
        for (std::uint32_t i = 0; i < many; ++i) {
            initiator.ring.fill(i, static_cast<unsigned char>(i + round));
            ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        }
        for (std::size_t i = 0; i < many; ++i) {
            grain = target.next();
            ASSERT_EQ(grain.round, 1u);
            ASSERT_FALSE(seen[grain.index]) << "again";
            seen[grain.index] = true;
            ASSERT_TRUE(target.ring.holds(grain.index, static_cast<unsigned char>(grain.index + round)));
        }
        ASSERT_RYF(initiator.settle());
    }
    EXPECT_EQ(target.sources().at(0).lost, 0u);
}

/// What was announced before the target was taken away is there after it was added again, and is counted on.
TEST_P(FlowTest, GrainsThatWaitOutliveTheirOpening) {
    Target target(instance_, GetParam(), 2, 5000);
    Initiator initiator(instance_, GetParam(), 2, 5000);
    initiator.add(target);
    const auto announced = [&](std::uint64_t count) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (target.sources().at(0).grains < count && std::chrono::steady_clock::now() < end) {
        }
        EXPECT_EQ(target.sources().at(0).grains, count);
    };
    initiator.send(0, 1);
    initiator.send(1, 2);
    announced(2);
    ASSERT_RYF(ryf_initiator_remove_target(initiator.handle, target.info));
    initiator.add(target);
    announced(2);
    EXPECT_EQ(target.next().round + target.next().round, 2u);
    EXPECT_TRUE(target.ring.holds(0, 1));
    EXPECT_TRUE(target.ring.holds(1, 2));
    initiator.send(0, 3);
    EXPECT_EQ(target.next().round, 1u);
    announced(3);
}

/// The progress thread leaves it to who looks so often, and most of its looks are at the rails alone.
TEST_P(FlowTest, InitiatorsAreTakenInWhileTheTargetLooksAllTheTime) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    std::atomic<bool> end{false};
    std::atomic<int> taken{0};
    std::thread looker([&] {
        ryf_grain grain{};
        while (!end)
            taken += ryf_target_try_new_grain(target.handle, &grain) == RYF_OK;
    });
    for (int i = 1; i <= 5; ++i) {
        Initiator initiator(instance_, GetParam(), ring_size, grain_length);
        initiator.add(target);
        initiator.send(0, 1);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (taken < i && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
        EXPECT_EQ(taken, i);
    }
    end = true;
    looker.join();
}

}  // namespace
}  // namespace railyard::flow::test
