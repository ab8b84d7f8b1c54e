// Allocations of ours that fail, one after the other: each call throws bad_alloc or answers with an error,
// the engine goes on, and nothing of the refused call stays. (Allocations of libfabric's, which are C, do not
// fail here.)
#include <gtest/gtest.h>

#include "failing_new.h"
#include "left_open.h"
#include "traffic.h"

namespace railyard::test {
namespace {

constexpr long most_allocations = 20'000;

/// Runs `call` with its n-th allocation failing, for n = 0, 1, 2... until none fails; then it must succeed.
/// `undo` follows each success, `check` each failure. Returns how many allocations the call makes.
template <class Call, class Undo, class Check>
long sweep(Call call, Undo undo, Check check, long step = 1) {
    for (long n = 0; n < most_allocations; n += step) {
        one_failed = false;
        bool succeeded = false;
        allocations_left = n;
        try {
            call();
            succeeded = true;
        } catch (const std::bad_alloc&) {
        } catch (const Error&) {
        }
        allocations_left = -1;
        if (!one_failed) {
            EXPECT_TRUE(succeeded) << "an error with all the memory that it wanted";
            undo();
            return n;
        }
        // What is not needed for good may go without: a line of the log, say.
        if (succeeded) undo();
        check();
        if (testing::Test::HasFatalFailure()) break;
    }
    ADD_FAILURE() << "it never succeeds";
    return most_allocations;
}

class MemoryTest : public testing::TestWithParam<Fabric> {};

TEST_P(MemoryTest, PreparationFailsClearlyAndTheEngineGoesOn) {
    Traffic traffic(GetParam(), 65536);
    traffic.round();
    std::vector<LocalDescriptor> from(20, traffic.source.local(0, 512));
    std::vector<RemoteDescriptor> to(20, {traffic.target.address(), 512, &traffic.remote});
    Transfer* made = nullptr;
    EXPECT_GT(
        sweep([&] { made = traffic.pair.a->prepare(Operation::read, from, to, "beta", "a longer message"); },
              [&] { traffic.pair.a->release(made); }, [&] { traffic.round(); }),
        5);
}

TEST_P(MemoryTest, RegistrationFailsClearlyAndTheEngineGoesOn) {
    Traffic traffic(GetParam(), 65536);
    std::vector<std::uint8_t> bytes(65536);
    std::shared_ptr<Registration> region;
    EXPECT_GT(sweep(
                  [&] {
                      region = traffic.pair.a->register_memory(reinterpret_cast<std::uint64_t>(bytes.data()),
                                                               bytes.size(), 0);
                  },
                  [&] { traffic.pair.a->deregister_memory(region); }, [&] { traffic.round(); }),
              2);
}

TEST_P(MemoryTest, MetadataIsWholeOrNot) {
    Traffic traffic(GetParam(), 65536);
    const std::string memory = traffic.pair.b->memory_metadata(*traffic.target.region);
    std::string made;
    EXPECT_GT(sweep([&] { made = traffic.pair.b->memory_metadata(*traffic.target.region); },
                    [&] { EXPECT_EQ(made, memory); }, [&] { traffic.round(); }),
              0);
    EXPECT_GT(
        sweep([&] { traffic.pair.a->load_remote_memory("beta", memory, traffic.target.address(), 65536); },
              [] {}, [&] { traffic.round(); }),
        0);
}

TEST_P(MemoryTest, PeersAreKnownOrNot) {
    Traffic traffic(GetParam(), 65536);
    const auto gamma = make_engine("gamma", GetParam());
    const std::string info = gamma->connection_info();
    const auto forget = [&] {
        try {
            traffic.pair.a->disconnect("gamma");
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), Status::not_found) << error.what();
        }
    };
    EXPECT_GT(sweep([&] { traffic.pair.a->load_connection_info("gamma", info); }, forget,
                    [&] {
                        forget();
                        traffic.round();
                    }),
              2);
    EXPECT_GT(sweep(
                  [&] {
                      traffic.pair.a->load_connection_info("gamma", info);
                      traffic.pair.a->connect("gamma");
                  },
                  forget,
                  [&] {
                      forget();
                      traffic.round();
                  }),
              2);
}

/// A newer instance of a peer comes while there is no memory for it.
TEST_P(MemoryTest, APeerIsReplacedOrNot) {
    Traffic traffic(GetParam(), 65536);
    for (int turn = 0; turn < 40; ++turn) {
        const auto beta = make_engine("beta", GetParam());
        allocations_left = turn;
        one_failed = false;
        try {
            traffic.pair.a->load_connection_info("beta", beta->connection_info());
        } catch (const std::bad_alloc&) {
        }
        allocations_left = -1;
        traffic.pair.a->load_connection_info("beta", traffic.pair.b->connection_info());
        if (!one_failed) return;
    }
    ADD_FAILURE() << "it never succeeds";
}

TEST_P(MemoryTest, NotificationsAreSentOnceOrNotAtAll) {
    Traffic traffic(GetParam(), 65536);
    traffic.round();
    int sent = 0;
    const long allocations = sweep(
        [&] { traffic.pair.a->send_notification("beta", std::string(20'000, 'n')); }, [&] { ++sent; }, [] {});
    EXPECT_GT(allocations, 0);
    EXPECT_EQ(traffic.pair.notifications(static_cast<std::size_t>(sent)).size(),
              static_cast<std::size_t>(sent));
    traffic.round();
}

TEST_P(MemoryTest, TakingNotificationsLosesAndRepeatsNone) {
    Traffic traffic(GetParam(), 65536);
    for (int i = 0; i < 10; ++i)
        traffic.pair.b->send_notification("beta", "to myself " + std::to_string(i) + std::string(50, ' '));
    std::vector<Notification> got;
    sweep([&] { traffic.pair.b->take_notifications(got); }, [] {}, [] {});
    ASSERT_EQ(got.size(), 10u);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(i)].message.rfind("to myself " + std::to_string(i), 0), 0u);
}

TEST_P(MemoryTest, PostAnswersWithAnErrorAndTheHandleStaysOfUse) {
    Traffic traffic(GetParam(), 65536);
    traffic.round();
    for (long n = 0;; ++n) {
        ASSERT_LT(n, 100);
        const std::string longer(1000 + static_cast<std::size_t>(n) * 100, 'p');
        allocations_left = n;
        one_failed = false;
        const Status status = traffic.pair.a->post(*traffic.transfer, &longer);
        allocations_left = -1;
        if (status == Status::in_progress || status == Status::ok) {
            EXPECT_TRUE(traffic.pair.until(
                [&] { return traffic.pair.a->poll(*traffic.transfer) != Status::in_progress; }));
            EXPECT_EQ(traffic.pair.notifications(1).front().message, longer);
        } else {
            EXPECT_EQ(status, Status::backend);
            EXPECT_TRUE(one_failed);
        }
        if (!one_failed) break;
    }
    traffic.pair.a->release(traffic.transfer);
}

/// What arrives while there is no memory is lost with a line in the log, and nothing else is.
TEST_P(MemoryTest, ProgressSurvivesWithoutMemory) {
    Fabric fabric = GetParam();
    fabric.progress_thread = false;
    Traffic traffic(fabric, 65536);
    traffic.round();
    for (long n = 0; n < 30; ++n) {
        traffic.pair.a->send_notification("beta", std::string(30'000, 'x'));
        for (int i = 0; i < 50; ++i) {
            allocations_left = n;
            traffic.pair.a->progress();
            traffic.pair.b->progress();
            allocations_left = -1;
        }
        std::vector<Notification> got;
        EXPECT_TRUE(traffic.pair.until([&] {
            traffic.pair.b->send_notification("beta", "end");
            traffic.pair.b->take_notifications(got);
            return !got.empty();
        }));
    }
    // Whole messages still arrive.
    for (int i = 0; i < 10; ++i)
        traffic.pair.a->send_notification("beta", std::string(30'000, 'y'));
    std::size_t whole = 0;
    EXPECT_TRUE(traffic.pair.until([&] {
        std::vector<Notification> got;
        traffic.pair.b->take_notifications(got);
        for (const Notification& each : got)
            whole += each.message == std::string(30'000, 'y');
        return whole == 10;
    })) << whole;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, MemoryTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 2, true}, Fabric{"tcp", 1, false},
                                                    Fabric{"shm", 2, false}})),
                         fabric_name);

TEST(EngineCreation, FailsClearlyAndLeavesNothingOpen) {
    for (const bool thread : {true, false}) {
        const Fabric fabric = fabrics({Fabric{"tcp", 1, thread}}).front();
        { const auto warm_up = make_engine("warm up", fabric); }
        const auto before = open_files();
        std::unique_ptr<Engine> engine;
        const long allocations =
            sweep([&] { engine = make_engine("alpha", fabric); }, [&] { engine.reset(); }, [] {}, 3);
        EXPECT_GT(allocations, 10);
        EXPECT_EQ(open_files(), before);
    }
}

}  // namespace
}  // namespace railyard::test
