// Two threads that post and poll on one engine: do they stay out of each other's way?
#include <algorithm>
#include <atomic>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

constexpr std::size_t window = 8, block = 64;

/// Handles of one thread to memory of its own.
struct Handles {
    Handles(EnginePair& pair, std::size_t thread, const Buffer& from, const Buffer& to,
            std::shared_ptr<RemoteRegion>& remote)
        : engine(*pair.a) {
        for (std::size_t i = 0; i < window; ++i) {
            const std::size_t at = (thread * window + i) * block;
            const LocalDescriptor here = from.local(at, block);
            const RemoteDescriptor there{to.address() + at, block, &remote};
            all.push_back(engine.prepare(Operation::write, {&here, 1}, {&there, 1}, "beta", std::nullopt));
        }
    }
    ~Handles() {
        for (Transfer* transfer : all)
            engine.release(transfer);
    }
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    /// Each as often as that, posted again as soon as it is through; false: one has failed.
    bool drive(int rounds) {
        bool good = true;
        std::vector<int> left(window, rounds);
        for (Transfer* transfer : all)
            good = engine.post(*transfer) != Status::backend && good;
        for (std::size_t open = window; good && open > 0;) {
            for (std::size_t i = 0; i < window; ++i) {
                if (left[i] == 0) continue;
                const Status status = engine.poll(*all[i]);
                if (status == Status::in_progress) continue;
                good = good && status == Status::ok;
                if (--left[i] == 0) {
                    --open;
                } else {
                    const Status posted = engine.post(*all[i]);
                    good = good && (posted == Status::ok || posted == Status::in_progress);
                }
            }
        }
        return good;
    }

    Engine& engine;
    std::vector<Transfer*> all;
};

std::uint64_t meetings(const Engine& engine) {
    std::uint64_t sum = 0;
    for (const RailCounters& rail : engine.rail_counters())
        sum += rail.contended + rail.leases_ended;
    return sum;
}

TEST(TwoThreads, KeepToRailsOfTheirOwn) {
    constexpr int warm_up = 2000, attempts = 30, rounds = 1000;
    EnginePair pair(Fabric{"efa-direct", 4, false});
    Buffer from(*pair.a, 2 * window * block), to(*pair.b, 2 * window * block);
    fill_pattern(from.bytes, 9);
    auto remote = pair.publish(to);
    Handles first(pair, 0, from, to, remote), second(pair, 1, from, to, remote);
    for (Handles* handles : {&first, &second}) {
        for (Transfer* transfer : handles->all)
            ASSERT_EQ(pair.run(*transfer), Status::ok);  // makes all rails known to each other
    }
    std::vector<std::uint64_t> met;  // until the end of each attempt, and of the warm-up
    met.reserve(attempts + 1);
    std::barrier together(2, [&]() noexcept { met.push_back(meetings(*pair.a)); });
    std::atomic<bool> good{true};
    const auto work = [&](Handles& handles) {
        if (!handles.drive(warm_up)) good = false;
        together.arrive_and_wait();
        for (int attempt = 0; attempt < attempts; ++attempt) {
            if (!handles.drive(rounds)) good = false;
            together.arrive_and_wait();
        }
    };
    std::thread other([&] { work(second); });
    work(first);
    other.join();
    EXPECT_TRUE(good);
    EXPECT_TRUE(from.bytes == to.bytes);
    // Where the machine stops a thread at work on a rail, the other meets it there at every look: so it is
    // the calmest attempt that counts. Without rails of their own it is one time in two.
    std::adjacent_difference(met.begin(), met.end(), met.begin());
    EXPECT_LT(*std::min_element(met.begin() + 1, met.end()), 2 * window * rounds / 100);
}

TEST(TwoThreads, RailsOfOneThatHasGoneAreTheOthersAgain) {
    constexpr int rounds = 2000;
    EnginePair pair(Fabric{"efa-direct", 4, false});
    Buffer from(*pair.a, 2 * window * block), to(*pair.b, 2 * window * block);
    auto remote = pair.publish(to);
    Handles first(pair, 0, from, to, remote), second(pair, 1, from, to, remote);
    for (Transfer* transfer : first.all)
        ASSERT_EQ(pair.run(*transfer), Status::ok);
    std::atomic<bool> good{true};
    std::thread other([&] { good = second.drive(rounds); });
    EXPECT_TRUE(first.drive(rounds));
    other.join();
    EXPECT_TRUE(good);
    const auto used = [&] {
        std::size_t count = 0;
        std::map<std::string, std::uint64_t> before;
        for (const simefa::NicState& nic : cluster().list())
            before[nic.nic] = nic.counters.at("writes");
        EXPECT_TRUE(first.drive(rounds));
        for (const simefa::NicState& nic : cluster().list())
            count += nic.counters.at("writes") > before[nic.nic];
        return count;
    };
    static_cast<void>(used());
    EXPECT_EQ(used(), 4u);
}

}  // namespace
}  // namespace railyard::test
