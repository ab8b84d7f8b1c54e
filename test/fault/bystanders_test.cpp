// What a peer that is stopped does to transfers with another one: nothing.
#include "least_of.h"
#include "peer_faults.h"

namespace railyard::test {
namespace {

/// One of two is stopped with much to do, and the other has nothing to do with it.
class Bystanders : public PeerFaults {
  protected:
    void stop_with(const std::function<void(FarSide& stopped)>& work) {
        start({{"peer_timeout_ms", "20000"}});
        const auto stopped = target("beta", 2 * size), other = target("gamma");
        for (const auto& peer : {stopped.get(), other.get()}) {
            for (const Operation operation : {Operation::read, Operation::write})
                ASSERT_EQ(run(*peer->prepare(operation, size, 0, "first")), Status::ok);
        }
        stopped->process->send_signal(SIGSTOP);
        drive(milliseconds(20));
        work(*stopped);
        // One that goes as a message, one that is striped, and one that is neither.
        const Moment moments[] = {{Operation::write, 4096, "small"},
                                  {Operation::write, size, "large"},
                                  {Operation::read, 65536, ""}};
        for (const Moment& moment : moments) {
            Transfer* transfer = moment.message[0]
                                     ? other->prepare(moment.operation, moment.length, 0, moment.message)
                                     : other->prepare(moment.operation, moment.length);
            const auto carry = [&] {
                const auto begin = Clock::now();
                EXPECT_EQ(run(*transfer), Status::ok);
                const auto took = Clock::now() - begin;
                EXPECT_LT(took, milliseconds(10'000)) << "until the other peer was given up";
                return took;
            };
            const milliseconds limit(2000);
            EXPECT_LT(least_of(limit, carry), limit) << moment.length << " bytes waited for the other peer";
        }
        EXPECT_TRUE(until([&] { return other->process->notifications().size() >= 2; }));
        stopped->process->send_signal(SIGCONT);
        for (Transfer* transfer : stopped->transfers)
            EXPECT_EQ(wait(*transfer), Status::ok);
    }
    struct Moment {
        Operation operation;
        std::size_t length;
        const char* message;
    };
};

TEST_P(Bystanders, GoOnBesideMessages) {
    stop_with([&](FarSide& stopped) {
        for (int i = 0; i < 40; ++i) {
            stopped.transfers.push_back(engine_->prepare(Operation::write, {}, {}, "beta", "unread"));
            ASSERT_NE(engine_->post(*stopped.transfers.back()), Status::remote_disconnect);
        }
    });
}

TEST_P(Bystanders, GoOnBesideManyBytes) {
    stop_with([&](FarSide& stopped) {
        for (std::size_t i = 0; i < 64; ++i) {
            const auto operation = i % 2 ? Operation::read : Operation::write;
            Transfer* const transfer = stopped.prepare(operation, size / 4, i % 2 * size);
            ASSERT_NE(engine_->post(*transfer), Status::remote_disconnect);
        }
    });
}

TEST_P(Bystanders, GoOnBesideManyOperations) {
    stop_with([&](FarSide& stopped) {
        for (std::size_t i = 0; i < 600; ++i)
            ASSERT_NE(engine_->post(*stopped.prepare(Operation::read, 4096, i * 4096)),
                      Status::remote_disconnect);
    });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Bystanders,
                         testing::Values(Fabric{"tcp", 1, true}, Fabric{"tcp", 2, false},
                                         Fabric{"tcp-msg", 1, true}),
                         fabric_name);

/// Who looks at nothing, and whose receive buffers are full, has the NICs try.
class FullReceivers : public PeerFaults {
  protected:
    static constexpr std::size_t most_stopped = 16;

    /// As many as its rail has buffers, and more than may be under way to it.
    void fill(const std::string& agent) {
        for (std::size_t i = 0; i < 44; ++i) {
            Transfer* const transfer = engine_->prepare(Operation::write, {}, {}, agent, "unread");
            unread_.push_back(transfer);
            const Status status = engine_->post(*transfer);
            ASSERT_TRUE(status == Status::ok || status == Status::in_progress);
        }
    }
    std::vector<Transfer*> unread_;
};

TEST_P(FullReceivers, HoldUpNobodyElse) {
    start({{"peer_timeout_ms", "20000"}, {"connect_timeout_ms", "20000"}});
    const auto other = target("gamma");
    std::vector<std::unique_ptr<FarSide>> stopped;
    for (std::size_t i = 0; i < most_stopped; ++i)
        stopped.push_back(target("beta" + std::to_string(i), 4096));
    for (const auto& peer : stopped)
        ASSERT_EQ(run(*peer->prepare(Operation::write, 4096, 0, "first")), Status::ok);
    ASSERT_EQ(run(*other->prepare(Operation::write, 4096, 0, "first")), Status::ok);
    for (const auto& peer : stopped)
        peer->process->send_signal(SIGSTOP);
    drive(milliseconds(20));
    for (const auto& peer : stopped)
        fill(peer->name);
    drive(milliseconds(50));
    const auto tell = [&] {
        const auto begin = Clock::now();
        Transfer* const transfer = engine_->prepare(Operation::write, {}, {}, "gamma", "read");
        EXPECT_EQ(run(*transfer), Status::ok);
        EXPECT_TRUE(until([&] { return !other->process->notifications().empty(); }, milliseconds(5000)));
        engine_->release(transfer);
        return Clock::now() - begin;
    };
    EXPECT_TRUE(until([&] { return !other->process->notifications().empty(); }));
    const milliseconds limit(500);
    EXPECT_LT(least_of(limit, tell), limit) << "it waited for those that are stopped";
    for (const auto& peer : stopped)
        peer->process->send_signal(SIGCONT);
    for (Transfer* transfer : unread_) {
        EXPECT_EQ(wait(*transfer), Status::ok);
        engine_->release(transfer);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FullReceivers, testing::Values(Fabric{"efa-direct", 1, true}), fabric_name);

}  // namespace
}  // namespace railyard::test
