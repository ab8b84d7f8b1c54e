// Memory that runs out while operations fail: each allocation in turn, also of what is done about them.
#include "failover.h"
#include "least_of.h"
#include "shortage_fixture.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

/// Until a peer is tried again of which every path has failed; and what was left without its answer, which
/// takes twice peer_timeout_ms.
constexpr milliseconds recovery(3000);

/// What becomes of operations.
struct Trouble {
    const char* name;
    std::vector<const char*> settings;  ///< of the NICs of `where`
    simefa::NicPattern where;
    long stride;
    bool moves_keys = false;  ///< the NICs know memory by another key than the one that was told
};
const Trouble troubles[] = {
    {"operations fail", {"error_code=13", "error_next=1"}, {"*", "rdmap8*s0"}, 13},
    {"more of them fail", {"error_code=13", "error_next=2"}, {"*", "rdmap8*s0"}, 23},
    {"all paths fail", {"error_code=13", "error_next=1"}, {"*", "*"}, 37},
    {"answers are lost", {"lost_answer_next=1"}, {"*", "rdmap8*s0"}, 53},
    {"keys are others", {}, {"*", "*"}, 5, true},
};

class FailingShortage : public ShortageTest {
  protected:
    ~FailingShortage() override { cluster().reset(); }

    std::shared_ptr<Registration> register_there(Engine& engine, std::uint64_t address,
                                                 std::size_t bytes) override {
        if (!moves_keys_) return ShortageTest::register_there(engine, address, bytes);
        engine.deregister_memory(engine.register_memory(address, bytes, 0));
        between_ = engine.register_memory(reinterpret_cast<std::uint64_t>(other_.data()), other_.size(), 0);
        return engine.register_memory(address, bytes, 0);
    }

    /// Paths that have failed are found to be well again, each of them.
    Outcome once_it_is_well(EnginePair& pair, Kind kind) {
        const auto limit = std::chrono::steady_clock::now() + recovery;
        Outcome outcome;
        PeerState state = PeerState::unknown;
        do {
            pair.until([] { return false; }, milliseconds(3));
            outcome = transfer_once(pair, kind);
            state = report_of(*pair.a, "beta").state;
        } while ((outcome != all_well || state != PeerState::ready) &&
                 std::chrono::steady_clock::now() < limit);
        EXPECT_EQ(state, PeerState::ready) << place();
        return outcome;
    }

    bool moves_keys_ = false;
    std::vector<std::uint8_t> other_ = std::vector<std::uint8_t>(4096);
    std::shared_ptr<Registration> between_;  ///< has the keys that were told
};

TEST_P(FailingShortage, OfWhatIsDoneAboutOperationsThatFail) {
    EnginePair pair(GetParam(), GetParam(),
                    {{"devices", "rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0"},
                     {"keep_keys", "always"},
                     {"peer_timeout_ms", "300"}});
    ASSERT_NO_FATAL_FAILURE(meet(pair));
    for (const Trouble& trouble : troubles) {
        SCOPED_TRACE(trouble.name);
        if (trouble.moves_keys && !asks_for_keys(GetParam())) continue;
        long tried = 0;  // allocations
        std::uint64_t errors = 0;
        for (const Kind kind : all_kinds) {
            tried += fail_in_turn(
                trouble.stride, recovery,
                [&](long at) {
                    for (const char* setting : trouble.settings)
                        cluster().set(setting, trouble.where);
                    moves_keys_ = trouble.moves_keys;
                    const Growth more("errors");
                    const Outcome outcome = transfer_once(pair, kind, at);
                    errors += more.value();
                    moves_keys_ = false;
                    if (between_) pair.b->deregister_memory(between_);
                    between_.reset();
                    cluster().reset();
                    return outcome;
                },
                [] { return shortage.left < 0; }, place, [&] { return once_it_is_well(pair, kind); });
        }
        EXPECT_GT(tried, 100) << "hardly anything was tried";
        EXPECT_GT(errors, 2u) << "hardly any operation failed";
    }
}

/// A target whose memory runs out in the middle of a look, again and again.
class ShortTarget : public Failover {
  protected:
    static void SetUpTestSuite() { watch_for_shortages(); }
    ShortTarget() : Failover(2) {}

    void look(std::vector<Notification>& got) {
        chance_ = chance_ * 1664525u + 1013904223u;
        arm(chance_ >> 28, true);
        try {
            b_->take_notifications(got);
        } catch (const std::bad_alloc&) {
        }
        disarm();
    }

    std::uint32_t chance_ = 1;
};

TEST_P(ShortTarget, TellsItsWritersAllTheSameHowFarItIs) {
    warm_up();
    Transfer* transfer = prepare(block, 0, "there");
    for (int i = 0; i < 4000 && !HasFailure(); ++i) {
        ASSERT_NE(a_->post(*transfer), Status::backend);
        std::vector<Notification> got;
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (got.empty() && std::chrono::steady_clock::now() < limit) {
            a_->progress();
            look(got);
        }
        EXPECT_EQ(got.size(), 1u) << "round " << i << "; " << place();
        ASSERT_EQ(wait(*transfer), Status::ok);
    }
    EXPECT_LT(least_of(1.7, [&] { return latencies_to_notification(*transfer); }), 1.7)
        << "they may not announce anything any more";
    a_->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ShortTarget, testing::Values("efa", "efa-direct"), efa_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, FailingShortage,
                         testing::ValuesIn(fabrics({Fabric{"efa-direct", 4, true}, Fabric{"efa", 4, false}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
