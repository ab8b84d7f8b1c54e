#include "common/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace railyard {
namespace mutex_test {

/// Threads that prepare long lists hold a table for most of the time, together all of the time.
TEST(SharedMutex, WhoWantsItAloneGetsItWhileOthersLookWithoutABreak) {
    constexpr int lookers = 4;
    SharedMutex mutex;
    std::atomic<bool> over{false};
    std::atomic<int> looks{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < lookers; ++i) {
        threads.emplace_back([&] {
            while (!over.load()) {
                const SharedLock lock(mutex);
                looks.fetch_add(1);
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
        });
    }
    while (looks.load() < 2 * lookers)
        std::this_thread::yield();
    int before = 0, looked = 0;
    std::thread change([&] {
        before = looks.load();
        const ExclusiveLock lock(mutex);
        looked = looks.load();
        over = true;
    });
    for (int tries = 0; tries < 2000 && !over.load(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(over.exchange(true)) << "it waited for 2 s at least";
    change.join();
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_LE(looked - before, 2 * lookers) << "those that had begun, and perhaps those about to";
}

TEST(SharedMutex, SomeLookTogetherAndOneChangesAlone) {
    SharedMutex mutex;
    int value = 0;
    std::atomic<int> inside{0};
    {
        const SharedLock here(mutex);
        std::thread([&] {
            const SharedLock there(mutex);
            inside = 1;
        }).join();
    }
    EXPECT_EQ(inside.load(), 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 1000; ++j) {
                const ExclusiveLock lock(mutex);
                ++value;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    const SharedLock lock(mutex);
    EXPECT_EQ(value, 4000);
}

}  // namespace mutex_test
}  // namespace railyard
