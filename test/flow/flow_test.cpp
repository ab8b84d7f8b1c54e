// Flows through the C API: whole grains, slices, several targets and sources, over each fabric.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "../least_of.h"
#include "flow_test.h"

namespace railyard::flow::test {
namespace {

/// More than a rail has receive buffers: on some devices each write with immediate data takes one.
TEST_P(FlowTest, HundredsOfSmallGrainsAreUnderWayAtOnce) {
    constexpr std::size_t many = 400, small = 4096;
    Target target(instance_, GetParam(), many, small);
    Initiator initiator(instance_, GetParam(), many, small);
    initiator.add(target);
    for (unsigned char round = 1; round <= 3; ++round) {
        for (std::uint32_t i = 0; i < many; ++i) {
            initiator.ring.fill(i, static_cast<unsigned char>(i + round));
            ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        }
        std::vector<int> seen(many);
        for (std::size_t i = 0; i < many; ++i) {
            const ryf_grain grain = target.next();
            ++seen[grain.index];
            ASSERT_TRUE(target.ring.holds(grain.index, static_cast<unsigned char>(grain.index + round)));
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(many));
        ASSERT_RYF(initiator.settle());
    }
    EXPECT_EQ(target.sources().at(0).lost, 0u);
}

TEST_P(FlowTest, GrainsArriveWholeInEveryRoundOfTheRing) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(target);
    for (std::uint32_t i = 0; i < 4 * ring_size; ++i) {
        const std::uint32_t index = i % ring_size;
        const auto seed = static_cast<unsigned char>(i + 1);
        initiator.ring.fill(index, seed);
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, index));
        const ryf_grain grain = target.next();
        EXPECT_EQ(grain.index, index);
        EXPECT_EQ(grain.source, 0u);
        EXPECT_EQ(grain.round, i / ring_size + 1);
        EXPECT_TRUE(target.ring.holds(index, seed)) << "torn";
        ASSERT_RYF(initiator.settle());
    }
    ryf_grain grain{};
    EXPECT_EQ(ryf_target_try_new_grain(target.handle, &grain), RYF_ERR_NOT_READY);
    const auto sources = target.sources();
    ASSERT_EQ(sources.size(), 1u);
    EXPECT_TRUE(sources[0].connected);
    EXPECT_EQ(sources[0].grains, 4 * ring_size);
    EXPECT_EQ(sources[0].lost, 0u);
    EXPECT_EQ(sources[0].overwritten, 0u);
}

/// The whole ring at once, in any order; each grain is looked at in the moment in which it is announced.
TEST_P(FlowTest, AnyNumberOfGrainsIsUnderWayAtOnce) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(target);
    for (unsigned char round = 1; round <= 5; ++round) {
        for (std::uint32_t i = 0; i < ring_size; ++i) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (ryf_initiator_grain_ready(initiator.handle, i) == RYF_ERR_NOT_READY &&
                   std::chrono::steady_clock::now() < end) {
            }
            ASSERT_RYF(ryf_initiator_grain_ready(initiator.handle, i));
            initiator.ring.fill(i, static_cast<unsigned char>(round * 16 + i));
            ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        }
        std::vector<bool> seen(ring_size);
        for (std::uint32_t i = 0; i < ring_size; ++i) {
            const ryf_grain grain = target.next();
            ASSERT_LT(grain.index, ring_size);
            EXPECT_FALSE(seen[grain.index]) << "twice";
            seen[grain.index] = true;
            EXPECT_TRUE(target.ring.holds(grain.index, static_cast<unsigned char>(round * 16 + grain.index)));
        }
    }
    ASSERT_RYF(initiator.settle());
}

TEST_P(FlowTest, SlicesInAnyOrderMakeAGrain) {
    constexpr std::uint32_t slices = 7;
    Target target(instance_, GetParam(), ring_size, grain_length, slices);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(target);
    std::mt19937 random(1);
    ryf_grain grain{};
    for (std::uint32_t round = 1; round <= 6; ++round) {
        initiator.ring.fill(2, static_cast<unsigned char>(round));
        std::vector<std::uint32_t> order{0, 1, 2, 3, 4, 5, 6};
        std::shuffle(order.begin(), order.end(), random);
        for (std::uint32_t slice : order) {
            ASSERT_EQ(ryf_target_try_new_grain(target.handle, &grain), RYF_ERR_NOT_READY) << "too early";
            ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 2, slice, slice));
            if (round % 2) {
                ASSERT_RYF(initiator.settle());
            }
        }
        grain = target.next();
        EXPECT_EQ(grain.round, round);
        EXPECT_TRUE(target.ring.holds(2, static_cast<unsigned char>(round)));
        ASSERT_RYF(initiator.settle());
    }
    EXPECT_EQ(target.sources().at(0).lost, 0u);
}

/// A slice that is sent again begins the grain anew; what there was of it is lost.
TEST_P(FlowTest, ARepeatedSliceBeginsTheNextRound) {
    Target target(instance_, GetParam(), 1, 4000, 4);
    Initiator initiator(instance_, GetParam(), 1, 4000);
    initiator.add(target);
    ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 0, 1));
    ASSERT_RYF(initiator.settle());
    EXPECT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 1, 3));
    ASSERT_RYF(initiator.settle());
    EXPECT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 0, 0));
    const ryf_grain grain = target.next();
    EXPECT_EQ(grain.round, 2u);
    ASSERT_RYF(initiator.settle());
    EXPECT_EQ(target.sources().at(0).lost, 1u);
    EXPECT_EQ(ryf_initiator_transfer_slices(initiator.handle, 0, 2, 4), RYF_ERR_INVALID_ARG);
    EXPECT_EQ(ryf_initiator_transfer_slices(initiator.handle, 0, 2, 1), RYF_ERR_INVALID_ARG);
}

/// Whether or not the target that got the beginning is still there: of a grain that had begun when it was
/// added a target gets nothing, and takes no part of it for one of the next.
TEST_P(FlowTest, ATargetThatComesInTheMiddleOfAGrainGetsTheNextOne) {
    constexpr std::uint32_t slices = 4;
    for (const bool stays : {true, false}) {
        Target first(instance_, GetParam(), 1, 4000, slices), second(instance_, GetParam(), 1, 4000, slices);
        Initiator initiator(instance_, GetParam(), 1, 4000);
        initiator.add(first);
        initiator.ring.fill(0, 1);
        ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 0, 1));
        ASSERT_RYF(initiator.settle());
        if (!stays) {
            ASSERT_RYF(ryf_initiator_remove_target(initiator.handle, first.info));
        }
        initiator.add(second);
        ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 2, 3));
        ASSERT_RYF(initiator.settle());
        if (stays) {
            first.next();
            EXPECT_TRUE(first.ring.holds(0, 1));
        }
        for (unsigned char round = 2; round <= 4; ++round) {
            initiator.ring.fill(0, round);
            for (std::uint32_t slice = 0; slice < slices; ++slice) {
                ryf_grain grain{};
                ASSERT_EQ(ryf_target_try_new_grain(second.handle, &grain), RYF_ERR_NOT_READY) << "too early";
                ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, slice, slice));
                ASSERT_RYF(initiator.settle());
            }
            EXPECT_EQ(second.next().round, round - 1u);
            EXPECT_TRUE(second.ring.holds(0, round));
        }
        EXPECT_EQ(second.sources().at(0).lost, 0u);
    }
}

TEST_P(FlowTest, EveryTargetGetsEveryGrainOnce) {
    std::vector<std::unique_ptr<Target>> targets;
    Initiator initiator(instance_, GetParam(), ring_size, 300'000);
    for (int i = 0; i < 4; ++i) {
        targets.push_back(std::make_unique<Target>(instance_, GetParam(), ring_size, 300'000));
        initiator.add(*targets.back());
    }
    for (std::uint32_t i = 0; i < 3 * ring_size; ++i) {
        const std::uint32_t index = i % ring_size;
        initiator.send(index, static_cast<unsigned char>(i + 1));
        for (const auto& target : targets) {
            EXPECT_EQ(target->next().index, index);
            EXPECT_TRUE(target->ring.holds(index, static_cast<unsigned char>(i + 1)));
        }
    }
    for (const auto& target : targets) {
        ryf_grain grain{};
        EXPECT_EQ(ryf_target_try_new_grain(target->handle, &grain), RYF_ERR_NOT_READY);
        EXPECT_EQ(target->sources().at(0).grains, 3 * ring_size);
    }
}

/// "Call again" is enough: before the target has answered, and while a grain is on its way.
TEST_P(FlowTest, CallingAgainBringsAGrainOn) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    for (int round = 0; round < 5; ++round) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        ryf_status status = RYF_ERR_NOT_READY;
        while (status == RYF_ERR_NOT_READY && std::chrono::steady_clock::now() < end)
            status = ryf_initiator_transfer_grain(initiator.handle, 0);
        ASSERT_RYF(status) << "round " << round;
    }
    ASSERT_RYF(initiator.settle());
}

/// Grains that are transferred before the target has answered follow its answer.
TEST_P(FlowTest, NothingHasToWaitForTheConnection) {
    Target target(instance_, GetParam(), ring_size, 5000);
    Initiator initiator(instance_, GetParam(), ring_size, 5000);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    for (std::uint32_t i = 0; i < ring_size; ++i) {
        initiator.ring.fill(i, static_cast<unsigned char>(i + 1));
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
    }
    EXPECT_EQ(ryf_initiator_transfer_grain(initiator.handle, 0), RYF_ERR_NOT_READY);
    EXPECT_EQ(ryf_initiator_grain_ready(initiator.handle, ring_size), RYF_ERR_INVALID_ARG);
    ASSERT_RYF(initiator.settle());
    EXPECT_RYF(ryf_initiator_grain_ready(initiator.handle, 0));
    for (std::uint32_t i = 0; i < ring_size; ++i) {
        const ryf_grain grain = target.next();
        EXPECT_TRUE(target.ring.holds(grain.index, static_cast<unsigned char>(grain.index + 1)));
    }
}

/// A target that nobody asks for grains keeps the latest of each.
TEST_P(FlowTest, GrainsThatNobodyTakesAreCountedAsOverwritten) {
    Target target(instance_, GetParam(), 2, 5000);
    Initiator initiator(instance_, GetParam(), 2, 5000);
    initiator.add(target);
    for (unsigned char i = 1; i <= 5; ++i)
        initiator.send(i % 2, i);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // Over several rails the next round of a grain may be seen before the end of the one before, which is
    // lost then.
    const auto seen = [&] { return target.sources().at(0).grains + target.sources().at(0).lost; };
    while (seen() < 5 && std::chrono::steady_clock::now() < end) {
    }
    EXPECT_EQ(target.sources().at(0).overwritten + target.sources().at(0).lost, 3u);
    if (GetParam().rails == 1) {
        EXPECT_EQ(target.sources().at(0).lost, 0u);
    }
    std::uint64_t rounds[2] = {};
    for (int i = 0; i < 2; ++i) {  // rails may be read in another order than grains came
        const ryf_grain grain = target.next();
        rounds[grain.index] = grain.round;
    }
    EXPECT_EQ(rounds[0], 2u);
    EXPECT_EQ(rounds[1], 3u);
    ryf_grain none{};
    EXPECT_EQ(ryf_target_wait_for_new_grain(target.handle, &none, 0), RYF_ERR_TIMEOUT);
}

std::atomic<int> signals{0};

/// The handler has run, nothing is lost, and the next call goes on.
TEST_P(FlowTest, ASignalEndsAWait) {
    Target target(instance_, GetParam(), 2, 5000);
    Initiator initiator(instance_, GetParam(), 2, 5000);
    initiator.add(target);
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals; };
    struct sigaction before {};
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    signals = 0;
    const pthread_t waiter = pthread_self();
    std::thread sender([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the wait is asleep by then
        pthread_kill(waiter, SIGUSR1);
    });
    ryf_grain grain{};
    const ryf_status status = ryf_target_wait_for_new_grain(target.handle, &grain, 20'000);
    sender.join();
    EXPECT_EQ(status, RYF_ERR_INTERRUPTED);
    EXPECT_EQ(signals, 1);
    sigaction(SIGUSR1, &before, nullptr);
    initiator.send(1, 9);
    EXPECT_EQ(target.next().index, 1u);
    EXPECT_TRUE(target.ring.holds(1, 9));
}

TEST_P(FlowTest, WaitsEndInTime) {
    Target target(instance_, GetParam(), 2, 5000);
    ryf_grain grain{};
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(ryf_target_wait_for_new_grain(target.handle, &grain, 60), RYF_ERR_TIMEOUT);
    const auto taken = std::chrono::steady_clock::now() - begun;
    EXPECT_GE(taken, std::chrono::milliseconds(60));
    EXPECT_LT(taken, std::chrono::seconds(10));
}

/// Of some rounds: until a grain has come for each of as many threads, which are asleep before.
std::chrono::steady_clock::duration median_to_wake_all(Target& target, Initiator& initiator) {
    constexpr int rounds = 15;
    std::barrier together(ring_size + 1);
    std::vector<std::thread> sleepers;
    for (std::size_t i = 0; i < ring_size; ++i) {
        sleepers.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                together.arrive_and_wait();
                target.next();
                together.arrive_and_wait();
            }
        });
    }
    std::vector<std::chrono::steady_clock::duration> taken;
    for (int round = 0; round < rounds; ++round) {
        together.arrive_and_wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they are asleep by then
        const auto begun = std::chrono::steady_clock::now();
        for (std::uint32_t i = 0; i < ring_size; ++i)
            EXPECT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        EXPECT_RYF(initiator.settle());
        together.arrive_and_wait();
        taken.push_back(std::chrono::steady_clock::now() - begun);
    }
    for (std::thread& sleeper : sleepers)
        sleeper.join();
    // A machine that is busy holds up some of them.
    std::nth_element(taken.begin(), taken.begin() + rounds / 2, taken.end());
    return taken[rounds / 2];
}

/// None is left asleep, until its next look, beside a grain that waits for it.
TEST_P(FlowTest, AsManySleepersAsGrainsAreWoken) {
    Target target(instance_, GetParam(), ring_size, 5000);
    Initiator initiator(instance_, GetParam(), ring_size, 5000);
    initiator.add(target);
    const std::chrono::milliseconds limit(30);
    EXPECT_LT(railyard::test::least_of(limit, [&] { return median_to_wake_all(target, initiator); }), limit);
}

/// The reader takes what another thread sends, with both sides asleep now and then. Over several rails a
/// grain may be announced before the one that was sent before it.
TEST_P(FlowTest, ThreadsOfTheirOwn) {
    constexpr std::uint32_t grains = 300;
    Target target(instance_, GetParam(), ring_size, 20'000);
    Initiator initiator(instance_, GetParam(), ring_size, 20'000);
    initiator.add(target);
    std::array<std::atomic<std::uint32_t>, ring_size> taken{};  // rounds, by index
    std::thread reader([&] {
        for (std::uint32_t i = 0; i < grains; ++i) {
            ryf_grain grain{};
            if (ryf_target_wait_for_new_grain(target.handle, &grain, 20'000) != RYF_OK) break;
            const auto sent = (grain.round - 1) * ring_size + grain.index;
            EXPECT_TRUE(target.ring.holds(grain.index, static_cast<unsigned char>(sent)));
            EXPECT_EQ(++taken[grain.index], grain.round);
        }
    });
    for (std::uint32_t i = 0; i < grains; ++i) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (taken[i % ring_size] < i / ring_size && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        initiator.send(i % ring_size, static_cast<unsigned char>(i));
    }
    reader.join();
    EXPECT_EQ(target.sources().at(0).grains, grains);
    EXPECT_EQ(target.sources().at(0).overwritten, 0u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowTest, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
