// Two threads that post and poll on one engine: do they stay out of each other's way?
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

constexpr std::size_t window = 8;

/// What one thread posts: transfers of so many blocks, in memory of its own.
struct Load {
    std::size_t block = 64, blocks = 1;
    [[nodiscard]] std::size_t bytes() const { return window * blocks * block; }
};

/// Keeps two threads abreast, as cores that are not equally fast would not.
struct Pace {
    static constexpr std::uint64_t ahead = 4;
    [[nodiscard]] bool waits(std::size_t thread) const {
        return !over && posted[thread] > posted[1 - thread] + ahead;
    }
    std::atomic<std::uint64_t> posted[2] = {0, 0};
    std::atomic<bool> over{false};
};

/// Handles of one thread, from `start` on.
struct Handles {
    Handles(EnginePair& pair, Load load, std::size_t start, const Buffer& from, const Buffer& to,
            std::shared_ptr<RemoteRegion>& remote)
        : engine(*pair.a) {
        for (std::size_t i = 0; i < window; ++i) {
            std::vector<LocalDescriptor> here;
            std::vector<RemoteDescriptor> there;
            for (std::size_t j = 0; j < load.blocks; ++j, start += load.block) {
                here.push_back(from.local(start, load.block));
                there.push_back({to.address() + start, load.block, &remote});
            }
            all.push_back(engine.prepare(Operation::write, here, there, "beta", std::nullopt));
        }
    }
    ~Handles() {
        for (Transfer* transfer : all)
            engine.release(transfer);
    }
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    /// Each as often as that, posted again as soon as it is through, and its turn; false: one has failed.
    bool drive(int rounds, Pace* pace = nullptr, std::size_t me = 0) {
        bool good = true;
        std::vector<int> left(window, rounds);
        for (Transfer* transfer : all)
            good = engine.post(*transfer) != Status::backend && good;
        for (std::size_t open = window; good && open > 0;) {
            for (std::size_t i = 0; i < window; ++i) {
                if (left[i] == 0) continue;
                if (pace && pace->waits(me)) {
                    engine.progress();
                    continue;
                }
                const Status status = engine.poll(*all[i]);
                if (status == Status::in_progress) continue;
                good = good && status == Status::ok;
                if (--left[i] == 0) {
                    --open;
                } else {
                    if (pace) ++pace->posted[me];
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

/// Of two threads that post blocks of different sizes: what of the lesser one's went over rails that are more
/// the other's. Half, where both use all rails alike; 1 where one of them did next to nothing.
double mixed(const std::vector<RailCounters>& before, const std::vector<RailCounters>& after,
             const Load (&loads)[2]) {
    constexpr auto write = static_cast<std::size_t>(Work::Kind::write);
    double done[2] = {0, 0}, strayed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
        const double count = static_cast<double>(after[i].operations[write] - before[i].operations[write]);
        const double bytes = static_cast<double>(after[i].bytes[write] - before[i].bytes[write]);
        const double small = static_cast<double>(loads[0].block), large = static_cast<double>(loads[1].block);
        const double second = (bytes - small * count) / (large - small), first = count - second;
        done[0] += first;
        done[1] += second;
        strayed += std::min(first, second);
    }
    const double lesser = std::min(done[0], done[1]);
    return lesser < (done[0] + done[1]) / 10 ? 1 : strayed / lesser;
}

constexpr int wanted = 3;

/// Spells of so many rounds, one after the other, in which hardly anything was mixed; as soon as there are as
/// many as wanted. Where the machine stops a thread the other takes its rails, as it should; and without
/// rails of their own one spell in thousands looks calm.
int calm_spells(const Load (&loads)[2], int rounds) {
    constexpr double hardly = 0.2;
    EnginePair pair(Fabric{"efa-direct", 4, false});
    const std::size_t bytes = loads[0].bytes() + loads[1].bytes();
    Buffer from(*pair.a, bytes), to(*pair.b, bytes);
    fill_pattern(from.bytes, 9);
    auto remote = pair.publish(to);
    Handles first(pair, loads[0], 0, from, to, remote),
        second(pair, loads[1], loads[0].bytes(), from, to, remote);
    for (Handles* handles : {&first, &second}) {
        for (Transfer* transfer : handles->all)
            EXPECT_EQ(pair.run(*transfer), Status::ok);  // makes all rails known to each other
    }
    Pace pace;
    std::atomic<bool> good{true};
    std::thread other([&] {
        while (!pace.over) {
            if (second.drive(rounds, &pace, 1)) continue;
            good = false;
            pace.over = true;  // nobody waits for who posts no more
        }
    });
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    int calm = 0;
    while (calm < wanted && std::chrono::steady_clock::now() < limit) {
        const std::vector<RailCounters> before = pair.a->rail_counters();
        good = first.drive(rounds, &pace, 0) && good;
        calm = mixed(before, pair.a->rail_counters(), loads) <= hardly ? calm + 1 : 0;
    }
    pace.over = true;
    other.join();
    EXPECT_TRUE(good);
    EXPECT_TRUE(from.bytes == to.bytes);
    return calm;
}

TEST(TwoThreads, KeepToRailsOfTheirOwn) {
    EXPECT_EQ(calm_spells({{64, 1}, {128, 1}}, 500), wanted);
}

TEST(TwoThreads, KeepToThemWithBatchesOfSmallBlocks) {
    EXPECT_EQ(calm_spells({{4096, 64}, {4608, 64}}, 50), wanted);
}

TEST(TwoThreads, RailsOfOneThatHasGoneAreTheOthersAgain) {
    constexpr int rounds = 2000;
    EnginePair pair(Fabric{"efa-direct", 4, false});
    const Load load;
    Buffer from(*pair.a, 2 * load.bytes()), to(*pair.b, 2 * load.bytes());
    auto remote = pair.publish(to);
    Handles first(pair, load, 0, from, to, remote), second(pair, load, load.bytes(), from, to, remote);
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
