// Peers that come and go, and many at once: nothing of them stays, and nobody is slower for the others.
#include <malloc.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstdio>

#include "engine_pair.h"
#include "failing_new.h"
#include "least_of.h"
#include "left_open.h"
#include "sanitized.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Sanitizers need room of their own.
constexpr int cycles = sanitized ? 300 : 10'000;
constexpr std::size_t wanted_peers = 1000, most_peers = sanitized ? 50 : wanted_peers;

std::size_t heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/// alpha and beta that do not know each other yet.
class ComeAndGo : public testing::TestWithParam<Fabric> {
  protected:
    ComeAndGo()
        : pair_(GetParam()),
          alpha_(pair_.a->connection_info()),
          beta_(pair_.b->connection_info()),
          source_(*pair_.a, size),
          target_(*pair_.b, size),
          memory_(pair_.b->memory_metadata(*target_.region)) {
        part();
    }
    ~ComeAndGo() override { cluster().reset(); }

    void part() {
        pair_.a->disconnect("beta");
        pair_.b->disconnect("alpha");
    }
    Transfer* prepare() {
        const auto remote = pair_.a->load_remote_memory("beta", memory_, target_.address(), size);
        const LocalDescriptor from = source_.local(0, size);
        const RemoteDescriptor to{target_.address(), size, &remote};
        return pair_.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "here");
    }
    /// They meet, something moves, and they part.
    void meet(std::uint8_t value, bool both_know) {
        pair_.a->load_connection_info("beta", beta_);
        if (both_know) pair_.b->load_connection_info("alpha", alpha_);
        source_.bytes.assign(size, value);
        Transfer* transfer = prepare();
        ASSERT_EQ(pair_.run(*transfer), Status::ok);
        pair_.a->release(transfer);
        ASSERT_TRUE(target_.bytes == source_.bytes);
        got_.clear();
        ASSERT_TRUE(pair_.until([&] {
            pair_.b->take_notifications(got_);
            return !got_.empty();
        }));
        pair_.a->disconnect("beta");
        if (both_know) pair_.b->disconnect("alpha");
    }

    static constexpr std::size_t size = 4096;
    EnginePair pair_;
    const std::string alpha_, beta_;
    Buffer source_, target_;
    const std::string memory_;
    std::vector<Notification> got_;
};

TEST_P(ComeAndGo, TenThousandTimesLeaveNothing) {
    const Growth addresses("addresses");
    const auto meet_often = [&](int times) {
        for (int i = 0; i < times && !HasFailure(); ++i)
            meet(static_cast<std::uint8_t>(i), i % 2 != 0);
    };
    meet_often(std::min(cycles / 10, 500));
    const std::size_t files = open_files();
    const auto growth = [&] {
        const std::size_t heap = heap_bytes();
        meet_often(cycles);
        // The provider closes the last connections when it sees that the other side has.
        EXPECT_TRUE(pair_.until([&] { return open_files() <= files; }))
            << open_files() << " instead of " << files;
        return static_cast<std::ptrdiff_t>(heap_bytes() - heap);
    };
    // Sanitizers tell of no heap. A pool of libfabric's grows now and then, for good.
    const std::ptrdiff_t most = sanitized ? PTRDIFF_MAX : cycles;
    EXPECT_LT(least_of(most, growth), most) << "a byte a time is too much";
    EXPECT_EQ(addresses.value(), 0u) << "left in address vectors";
}

/// Whichever allocation of meeting fails: no address stays in use.
TEST_P(ComeAndGo, AMeetingThatFailsHalfWayLeavesNoAddress) {
    meet(1, true);
    const Growth addresses("addresses");
    bool complete = false;
    for (long n = 0; n < 1000 && !complete && !HasFailure(); ++n) {
        one_failed = false;
        allocations_left = n;
        try {
            pair_.a->load_connection_info("beta", beta_);
            pair_.a->connect("beta");
            complete = true;
        } catch (const std::bad_alloc&) {
        } catch (const Error&) {
        }
        allocations_left = -1;
        complete = complete && !one_failed;
        try {
            pair_.a->disconnect("beta");
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), Status::not_found) << error.what();
        }
        // A HELLO under way keeps beta's address until it has left, and then beta knows alpha's.
        EXPECT_TRUE(pair_.until(
            [&] {
                pair_.b->load_connection_info("alpha", alpha_);
                pair_.b->disconnect("alpha");
                return addresses.value() == 0;
            },
            std::chrono::seconds(5)))
            << addresses.value() << " addresses are left by the failure of allocation " << n;
    }
    EXPECT_TRUE(complete);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ComeAndGo,
                         testing::Values(Fabric{"efa-direct", 2, false}, Fabric{"efa", 2, false},
                                         Fabric{"tcp", 2, false}, Fabric{"tcp-msg", 2, false}),
                         fabric_name);

/// As many as there is shared memory for: a simulated endpoint takes 300 KB of it. Says why they are fewer.
std::size_t peers_here() {
    struct statvfs room {};
    statvfs("/dev/shm", &room);
    const std::size_t free_mib = room.f_bavail * room.f_frsize / (1 << 20);
    const std::size_t count = std::min(most_peers, free_mib);
    if (count < wanted_peers) {
        std::fprintf(stderr, "ManyPeers: %zu peers, not %zu: ", count, wanted_peers);
        if (count < most_peers) {
            std::fprintf(stderr, "/dev/shm has %zu MiB free, and 1 MiB is reckoned for each\n", free_mib);
        } else {
            std::fprintf(stderr, "a sanitizer needs room of its own\n");
        }
    }
    return count;
}

/// One engine, its peers, and a handle to each.
class Hub {
  public:
    explicit Hub(std::size_t count) : engine_(make_engine("hub", fabric_)), source_(*engine_, size * count) {
        fill_pattern(source_.bytes, 1);
        spokes_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            Spoke& spoke = spokes_.emplace_back("spoke" + std::to_string(i));
            engine_->load_connection_info(spoke.name, spoke.engine->connection_info());
            spoke.transfer = prepare(i);
        }
    }
    ~Hub() {
        for (const Spoke& spoke : spokes_)
            engine_->release(spoke.transfer);
    }
    Hub(const Hub&) = delete;
    Hub& operator=(const Hub&) = delete;

    Transfer* prepare(std::size_t i, std::optional<std::string_view> notification = std::nullopt) {
        Spoke& spoke = spokes_[i];
        const auto remote = engine_->load_remote_memory(
            spoke.name, spoke.engine->memory_metadata(*spoke.target->region), spoke.target->address(), size);
        const LocalDescriptor from = source_.local(i * size, size);
        const RemoteDescriptor to{spoke.target->address(), size, &remote};
        return engine_->prepare(Operation::write, {&from, 1}, {&to, 1}, spoke.name, notification);
    }

    /// A transfer and a notification to each, all at once.
    void reach_all() {
        for (Spoke& spoke : spokes_) {
            const Status status = engine_->post(*spoke.transfer, &spoke.name);
            ASSERT_TRUE(status == Status::in_progress || status == Status::ok) << to_string(status);
        }
        const auto end = Clock::now() + std::chrono::seconds(60);
        std::size_t left = spokes_.size();
        while (left != 0 && Clock::now() < end) {
            left = 0;
            for (Spoke& spoke : spokes_) {
                spoke.engine->take_notifications(spoke.got);
                left += engine_->poll(*spoke.transfer) == Status::in_progress || spoke.got.empty();
            }
        }
        EXPECT_EQ(left, 0u) << "not reached";
        for (std::size_t i = 0; i < spokes_.size(); ++i) {
            const Spoke& spoke = spokes_[i];
            EXPECT_EQ(engine_->poll(*spoke.transfer), Status::ok) << spoke.name;
            EXPECT_TRUE(std::equal(spoke.target->bytes.begin(), spoke.target->bytes.end(),
                                   source_.bytes.begin() + static_cast<std::ptrdiff_t>(i * size)))
                << spoke.name;
            ASSERT_EQ(spoke.got.size(), 1u) << spoke.name;
            EXPECT_EQ(spoke.got[0].agent, "hub");
            EXPECT_EQ(spoke.got[0].message, spoke.name);
        }
    }

    /// Nanoseconds of the fastest of some batches: of preparing and releasing a handle to the last peer, and
    /// of one round of a transfer to it.
    struct Costs {
        double prepare = 1e18, round = 1e18;
    };
    void measure(Costs& costs) {
        constexpr int batch = 100;
        const std::size_t last = spokes_.size() - 1;
        std::vector<Transfer*> made(batch);
        const std::string metadata = spokes_[last].engine->memory_metadata(*spokes_[last].target->region);
        const auto since = [](Clock::time_point start) {
            return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / batch;
        };
        auto start = Clock::now();
        for (Transfer*& transfer : made)
            transfer = prepare(last);
        for (Transfer* transfer : made)
            engine_->release(transfer);
        costs.prepare = std::min(costs.prepare, since(start));
        Transfer* transfer = prepare(last);
        run_alone(*engine_, *transfer);
        start = Clock::now();
        for (int i = 0; i < batch; ++i)
            EXPECT_EQ(run_alone(*engine_, *transfer), Status::ok);
        costs.round = std::min(costs.round, since(start));
        engine_->release(transfer);
    }
    [[nodiscard]] std::vector<PeerReport> peers() const { return engine_->peers(); }
    /// Every second one.
    void drop_half() {
        for (std::size_t i = 0; i < spokes_.size(); i += 2) {
            engine_->disconnect(spokes_[i].name);
            EXPECT_EQ(engine_->post(*spokes_[i].transfer), Status::remote_disconnect);
        }
        for (std::size_t i = 1; i < spokes_.size(); i += 2)
            EXPECT_EQ(run_alone(*engine_, *spokes_[i].transfer), Status::ok) << spokes_[i].name;
    }

  private:
    struct Spoke {
        explicit Spoke(std::string agent)
            : name(std::move(agent)),
              engine(make_engine(name, fabric_)),
              target(std::make_unique<Buffer>(*engine, size)) {}
        std::string name;
        std::unique_ptr<Engine> engine;
        std::unique_ptr<Buffer> target;
        Transfer* transfer = nullptr;
        std::vector<Notification> got;
    };
    static constexpr std::size_t size = 1000;
    static inline const Fabric fabric_{"efa-direct", 1, false};
    std::unique_ptr<Engine> engine_;
    Buffer source_;
    std::vector<Spoke> spokes_;
};

TEST(ManyPeers, AreAllReachedAndNoneMakesAnotherSlower) {
    const std::size_t count = peers_here();
    ASSERT_GE(count, 40u) << "/dev/shm has no room";
    RecordProperty("peers", static_cast<int>(count));
    Hub one(1), many(count);
    one.reach_all();
    many.reach_all();
    if (HasFailure()) return;
    EXPECT_EQ(many.peers().size(), count);
    Hub::Costs with_one, with_many;
    const auto ratio = [](double many_ns, double one_ns) { return many_ns / one_ns; };
    // What the machine is busy with only ever makes it slower: the least counts, and sooner or later both
    // have had their best.
    for (int batch = 0; batch < 400; ++batch) {
        one.measure(with_one);
        many.measure(with_many);
        if (batch >= 20 && ratio(with_many.prepare, with_one.prepare) <= 1.25 &&
            ratio(with_many.round, with_one.round) <= 1.25)
            break;
    }
    RecordProperty("prepare_ns", static_cast<int>(with_many.prepare));
    RecordProperty("round_ns", static_cast<int>(with_many.round));
    EXPECT_LE(ratio(with_many.prepare, with_one.prepare), 1.25) << "preparing, " << count << " peers";
    EXPECT_LE(ratio(with_many.round, with_one.round), 1.25) << "a round, " << count << " peers";
    many.drop_half();
    EXPECT_EQ(many.peers().size(), count / 2);
}

}  // namespace
}  // namespace railyard::test
