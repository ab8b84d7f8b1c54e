// Threads: what ThreadSanitizer is to look at. Runs with the driver thread (SIMEFA_THREADED=1).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Race, TheDriverThreadDeliversWithoutPolling) {
    Pair pair;
    ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data(), 64, fi_mr_desc(pair.target_region),
                      FI_ADDR_UNSPEC, nullptr),
              0);
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data(), 8, fi_mr_desc(pair.source_region),
                      pair.to_right, nullptr),
              0);
    EXPECT_EQ(pair.right.wait().length, 8U);
}

TEST(Race, PostersPollersAndRegistrations) {
    Control control;
    control.set("out_of_order=1");
    control.set("jitter_us=20");
    Pair pair;
    std::atomic<int> posted{0}, ended{0};
    constexpr int each = 2000;
    auto poster = [&](std::size_t offset) {
        for (int i = 0; i < each;) {
            const ssize_t rc = i % 3 ? pair.write(offset, 256) : pair.read(offset, 256);
            if (rc == 0) {
                ++i;
                ++posted;
            } else {
                ASSERT_EQ(rc, -FI_EAGAIN);
                std::this_thread::yield();
            }
        }
    };
    auto poller = [&] {
        const auto limit = Clock::now() + std::chrono::seconds(60);
        while (ended.load() < 2 * each && Clock::now() < limit) {
            fi_cq_tagged_entry entries[16];
            const ssize_t count = fi_cq_read(pair.left.queue, entries, 16);
            if (count > 0) ended += static_cast<int>(count);
            ASSERT_NE(count, -FI_EAVAIL);
        }
    };
    std::thread threads[] = {std::thread(poster, 0), std::thread(poster, 4096), std::thread(poller),
                             std::thread(poller)};
    std::vector<std::uint8_t> other(4096);
    for (int i = 0; i < 200; ++i)
        pair.right.close_region(pair.right.add_region(other.data(), other.size()));
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(ended.load(), 2 * each);
    control.reset();
}

TEST(Race, NobodyCopiesIntoARegionThatIsClosed) {
    Pair pair;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> key{0}, address{0};
    std::thread writer([&] {
        while (!stop.load()) {
            const std::uint64_t with = key.load();
            if (with == 0) continue;
            if (pair.left.write(pair.source.data(), 4096, pair.source_region, pair.to_right, address.load(),
                                with) != 0)
                continue;
            const Done done = pair.left.wait();
            ASSERT_TRUE(done.status == 0 || done.status == 7) << done.status;
        }
    });
    for (int round = 0; round < 300; ++round) {
        auto bytes = std::make_unique<std::uint8_t[]>(4096);
        fid_mr* region = pair.right.add_region(bytes.get(), 4096);
        address.store(reinterpret_cast<std::uint64_t>(bytes.get()));
        key.store(fi_mr_key(region));
        std::this_thread::yield();
        pair.right.close_region(region);
        bytes.reset();  // a copy that goes on is a use after free, which the sanitizers see
    }
    stop.store(true);
    writer.join();
}

TEST(Race, AClosedRegionIsNotWrittenAnyMore) {
    constexpr std::size_t bytes = 16 << 20;  // a copy takes milliseconds, so closing falls into it
    Pair pair({}, bytes);
    for (int round = 0; round < 10; ++round) {
        std::atomic<bool> posted{false};
        std::thread writer([&] {
            ASSERT_EQ(pair.write(0, bytes), 0);
            posted.store(true);
            const Done done = pair.left.wait();
            ASSERT_TRUE(done.status == 0 || done.status == 7) << done.status;
        });
        while (!posted.load())
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
        pair.right.close_region(pair.target_region);
        std::fill(pair.target.begin(), pair.target.end(), std::uint8_t{0xee});
        writer.join();
        EXPECT_EQ(std::count(pair.target.begin(), pair.target.end(), 0xee),
                  static_cast<std::ptrdiff_t>(bytes));
        pair.target_region = pair.right.add_region(pair.target.data(), bytes);
    }
}

TEST(Race, ASleeperIsWokenByAnotherThreadsPost) {
    Control control;
    control.set("latency_us=500");
    Pair pair;
    for (int i = 0; i < 20; ++i) {
        fi_cq_tagged_entry entry;
        std::thread poster([&] { ASSERT_EQ(pair.write(0, 8), 0); });
        EXPECT_EQ(fi_cq_sread(pair.left.queue, &entry, 1, nullptr, 10'000), 1);
        poster.join();
    }
    control.reset();
}

TEST(Race, EndpointsCloseWhileOthersWriteToThem) {
    for (int round = 0; round < 20; ++round) {
        Pair pair;
        std::thread writer([&] {
            for (int i = 0; i < 200; ++i) {
                ASSERT_EQ(pair.write(0, 1024), 0);
                const Done done = pair.left.wait();
                ASSERT_TRUE(done.status == 0 || done.status == 9) << done.status;
            }
        });
        std::this_thread::yield();
        pair.right.close_endpoint();
        writer.join();
    }
}

}  // namespace
}  // namespace simefa::test
