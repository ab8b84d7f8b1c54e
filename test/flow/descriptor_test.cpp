// The descriptor of a target: a program that polls it hears of every grain.
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>

#include "flow_test.h"

namespace railyard::flow::test {
namespace {

int descriptor_of(const Target& target) {
    int descriptor = -1;
    EXPECT_RYF(ryf_target_fd(target.handle, &descriptor));
    EXPECT_GE(descriptor, 0);
    return descriptor;
}

bool readable(int descriptor, int timeout_ms) {
    pollfd asked{descriptor, POLLIN, 0};
    return poll(&asked, 1, timeout_ms) == 1;
}

/// Until none is there.
std::uint32_t take_all(Target& target) {
    ryf_grain grain{};
    std::uint32_t count = 0;
    while (ryf_target_try_new_grain(target.handle, &grain) == RYF_OK)
        ++count;
    return count;
}

TEST_P(FlowTest, ADescriptorTellsOfGrains) {
    Target target(instance_, GetParam(), ring_size, 5000);
    Initiator initiator(instance_, GetParam(), ring_size, 5000);
    initiator.add(target);
    initiator.send(0, 1);
    const int descriptor = descriptor_of(target);
    EXPECT_TRUE(readable(descriptor, 10'000)) << "for what came before it was asked for";
    EXPECT_EQ(descriptor_of(target), descriptor) << "another one";
    EXPECT_EQ(target.next().index, 0u);
    EXPECT_EQ(take_all(target), 0u);
    EXPECT_FALSE(readable(descriptor, 0));
    EXPECT_FALSE(readable(descriptor, 20)) << "without a grain";
    for (std::uint32_t i = 0; i < ring_size; ++i)
        initiator.send(i, 2);
    for (std::uint32_t i = 0; i < ring_size; ++i) {  // one at a time
        ASSERT_TRUE(readable(descriptor, 10'000)) << "after " << i;
        ryf_grain grain{};
        while (ryf_target_try_new_grain(target.handle, &grain) != RYF_OK)
            ASSERT_TRUE(readable(descriptor, 10'000)) << "after " << i;
    }
    EXPECT_EQ(take_all(target), 0u);
    EXPECT_FALSE(readable(descriptor, 0));
}

/// Grains that come while the reader finds none, and lets the descriptor rest, are not slept over.
TEST_P(FlowTest, ADescriptorMissesNoGrain) {
    constexpr std::uint32_t grains = 2000;
    Target target(instance_, GetParam(), ring_size, 100);
    Initiator initiator(instance_, GetParam(), ring_size, 100);
    initiator.add(target);
    const int descriptor = descriptor_of(target);
    std::uint32_t taken = 0;
    std::array<std::atomic<std::uint32_t>, ring_size> rounds{};  // taken, by index
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        while (taken < grains && !stop) {
            if (!readable(descriptor, 5000)) {
                ADD_FAILURE() << "asleep after " << taken << " grains, and then there were "
                              << take_all(target);
                break;
            }
            ryf_grain grain{};
            for (; ryf_target_try_new_grain(target.handle, &grain) == RYF_OK; ++taken)
                ++rounds[grain.index];
        }
        stop = true;
    });
    for (std::uint32_t i = 0; i < grains && !stop; ++i) {
        while (rounds[i % ring_size] < i / ring_size && !stop)  // none is overwritten
            std::this_thread::yield();
        initiator.send(i % ring_size, 1);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!stop && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    stop = true;
    reader.join();
    EXPECT_EQ(taken, grains);
}

/// Threads that wait beside it are woken all the same.
TEST_P(FlowTest, ADescriptorTakesNothingFromWhoWaits) {
    Target target(instance_, GetParam(), ring_size, 5000);
    Initiator initiator(instance_, GetParam(), ring_size, 5000);
    initiator.add(target);
    const int descriptor = descriptor_of(target);
    EXPECT_EQ(take_all(target), 0u);
    std::atomic<int> taken{0};
    std::thread waiter([&] {
        target.next();
        ++taken;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it is asleep by then
    initiator.send(1, 1);
    waiter.join();
    EXPECT_EQ(taken, 1);
    EXPECT_TRUE(readable(descriptor, 10'000)) << "the waiter does not let it rest";
    EXPECT_EQ(take_all(target), 0u);
    EXPECT_FALSE(readable(descriptor, 0));
}

}  // namespace
}  // namespace railyard::flow::test
