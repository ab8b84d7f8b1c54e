// The hand-over between pushers and the holder of a role: under TSan this is the proof of the orders in the
// headers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "common/mpsc_list.h"
#include "common/thread_role.h"

namespace railyard {
namespace {

struct Node {
    Node* next = nullptr;
    int value = 0;
};

TEST(MpscList, TakesOldestFirst) {
    MpscList<Node> list;
    Node nodes[3] = {{nullptr, 1}, {nullptr, 2}, {nullptr, 3}};
    EXPECT_EQ(list.take_all(), nullptr);
    for (Node& node : nodes)
        list.push(node);
    int expected = 1;
    for (Node* node = list.take_all(); node; node = node->next)
        EXPECT_EQ(node->value, expected++);
    EXPECT_EQ(expected, 4);
    EXPECT_TRUE(list.empty());
}

/// One that comes all the time, others now and then: every pass is alone, and what is pushed is taken though
/// the lessee may have gone to sleep.
TEST(HandOver, StrandsNothingWithLeases) {
    constexpr int others = 3;
    constexpr int pushes = 300;
    ThreadRole role;
    MpscList<Node> list;
    long taken = 0;  // guarded by the role
    std::atomic<bool> over{false};
    std::atomic<long> leases{0};
    const auto look = [&] {
        do {
            if (!role.try_acquire()) return;
            for (Node* got = list.take_all(); got; got = got->next)
                taken += got->value;
            role.release_or_lease();
        } while (!list.empty());
    };
    std::thread lessee([&] {
        bool had = false;
        for (std::uint64_t i = 0; !over.load(std::memory_order_relaxed); ++i) {
            look();
            const bool has = role.leased();
            if (has && !had) ++leases;
            had = has;
            if (i % 100'000 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    });
    std::vector<std::vector<Node>> nodes(others, std::vector<Node>(pushes));
    std::vector<std::thread> workers;
    for (auto& own : nodes) {
        workers.emplace_back([&] {
            for (Node& node : own) {
                node.value = 1;
                list.push(node);
                look();
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    // The last push is somebody's by now; who has it may not be through.
    over = true;
    lessee.join();
    EXPECT_EQ(taken, others * pushes);
    EXPECT_TRUE(list.empty());
    if (has_process_barrier()) {
        EXPECT_GT(leases.load(), 0);
    }
}

/// Pushers and holders as in Rail::submit: whatever is pushed is taken, without anybody coming by later.
TEST(HandOver, StrandsNothing) {
    constexpr int threads = 4;
    constexpr int pushes = 20'000;
    ThreadRole role;
    MpscList<Node> list;
    long taken = 0;  // guarded by the role
    std::vector<std::vector<Node>> nodes(threads, std::vector<Node>(pushes));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            for (Node& node : nodes[static_cast<std::size_t>(t)]) {
                node.value = 1;
                list.push(node);
                do {
                    if (!role.try_acquire()) break;
                    for (Node* got = list.take_all(); got; got = got->next)
                        taken += got->value;
                    role.release();
                } while (!list.empty());
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    EXPECT_EQ(taken, threads * pushes);
    EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace railyard
