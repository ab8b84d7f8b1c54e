// Flows while memory runs out: calls say so, a grain that was reported is whole, and the next initiator finds
// all as it was.
#include <gtest/gtest.h>

#include "../shortage.h"
#include "flow_program.h"

namespace railyard::flow::test {
namespace {

using railyard::test::arm;
using railyard::test::disarm;
using railyard::test::place;

constexpr std::size_t ring_size = 2, grain_length = 100'001;
/// What a peer could not be told is said again after a while: that is not waited for while something fails.
constexpr std::uint32_t short_patience_ms = 300, long_patience_ms = 20'000;

class FlowShortage : public testing::TestWithParam<Fabric> {
  protected:
    static void SetUpTestSuite() { railyard::test::watch_for_shortages(); }

    /// One that comes, sends a grain and goes. `at` < 0: nothing fails.
    ryf_status send_once(Target& target, unsigned char seed, long at) {
        Ring ring(ring_size, grain_length);
        ring.fill(1, seed);
        const ryf_config config = config_for(GetParam(), ring.regions);
        ryf_initiator* initiator = nullptr;
        ryf_grain grain{};
        const std::uint32_t patience_ms = patience(at);
        if (at >= 0) arm(at, false);
        const auto each = [&] {
            ryf_status status = ryf_initiator_create(instance_.handle, &initiator);
            if (status == RYF_OK) status = ryf_initiator_setup(initiator, &config);
            if (status == RYF_OK) status = ryf_initiator_add_target(initiator, target.info);
            if (status == RYF_OK) status = ryf_initiator_make_progress_blocking(initiator, patience_ms);
            if (status == RYF_OK) status = ryf_initiator_transfer_grain(initiator, 1);
            if (status == RYF_OK) status = ryf_initiator_make_progress_blocking(initiator, patience_ms);
            return status;
        };
        ryf_status status = each();
        disarm();
        failed_ = shortage.left < 0;
        if (status == RYF_OK) status = ryf_target_wait_for_new_grain(target.handle, &grain, patience_ms);
        if (status == RYF_OK) {
            EXPECT_EQ(grain.index, 1u);
            EXPECT_TRUE(target.ring.holds(1, seed)) << "allocation " << at;
        }
        EXPECT_EQ(ryf_initiator_destroy(initiator), RYF_OK);
        return status;
    }
    /// A target that comes, is given a grain by one that stays, and goes.
    ryf_status take_once(Initiator& initiator, unsigned char seed, long at) {
        Ring ring(ring_size, grain_length);
        const ryf_config config = config_for(GetParam(), ring.regions);
        ryf_target* target = nullptr;
        ryf_target_info* info = nullptr;
        ryf_grain grain{};
        bool added = false;
        const std::uint32_t patience_ms = patience(at);
        initiator.ring.fill(1, seed);
        if (at >= 0) arm(at, false);
        const auto each = [&] {
            ryf_status status = ryf_target_create(instance_.handle, &target);
            if (status == RYF_OK) status = ryf_target_setup(target, &config, &info);
            if (status == RYF_OK) {
                status = ryf_initiator_add_target(initiator.handle, info);
                added = status == RYF_OK;
            }
            if (status == RYF_OK) status = initiator.settle(patience_ms);
            if (status == RYF_OK) status = ryf_initiator_transfer_grain(initiator.handle, 1);
            if (status == RYF_OK) status = initiator.settle(patience_ms);
            return status;
        };
        ryf_status status = each();
        disarm();
        failed_ = shortage.left < 0;
        if (target && !info) {
            EXPECT_EQ(ryf_target_try_new_grain(target, &grain), RYF_ERR_INVALID_STATE)
                << "set up, and its setup failed; allocation " << at << ": " << place();
        }
        if (status == RYF_OK) status = ryf_target_wait_for_new_grain(target, &grain, patience_ms);
        if (status == RYF_OK) {
            EXPECT_EQ(grain.index, 1u);
            EXPECT_TRUE(ring.holds(1, seed)) << "allocation " << at;
        }
        EXPECT_TRUE(!added || ryf_initiator_remove_target(initiator.handle, info) == RYF_OK);
        static_cast<void>(initiator.settle(long_patience_ms));
        if (at >= 0) arm(at % 7, true);
        EXPECT_TRUE(!target || ryf_target_destroy(target) == RYF_OK);
        disarm();
        ryf_target_info_free(info);
        return status;
    }
    /// Grains that are given to an initiator before its target has answered, and memory that runs out until
    /// that has come. What is not told to have failed arrives.
    void send_early(Target& target, unsigned char seed, long at, bool lasting) {
        Initiator initiator(instance_, GetParam(), ring_size, grain_length);
        EXPECT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
        ryf_grain grain{};
        while (ryf_target_try_new_grain(target.handle, &grain) == RYF_OK) {
        }
        for (std::uint32_t i = 0; i < ring_size; ++i)
            initiator.ring.fill(i, seed);
        std::size_t given = 0, failed = 0, arrived = 0;
        arm(at, lasting);
        for (std::uint32_t i = 0; i < ring_size; ++i)
            given += ryf_initiator_transfer_grain(initiator.handle, i) == RYF_OK ? 1 : 0;
        ryf_status status = initiator.settle(lasting ? 30 : short_patience_ms);
        disarm();
        for (; status != RYF_OK && failed <= 2 * ring_size; status = initiator.settle())
            failed += status != RYF_ERR_TIMEOUT ? 1 : 0;
        EXPECT_EQ(status, RYF_OK) << words(status);
        const std::uint32_t patience_ms = failed ? 20 : long_patience_ms;
        while (arrived < given &&
               ryf_target_wait_for_new_grain(target.handle, &grain, patience_ms) == RYF_OK) {
            EXPECT_TRUE(target.ring.holds(grain.index, seed));
            ++arrived;
        }
        EXPECT_GE(arrived + failed, given) << "lost without a word; allocation " << at << ": " << place();
    }
    static std::uint32_t patience(long at) { return at >= 0 ? short_patience_ms : long_patience_ms; }

    /// `once(seed, at)` with each `stride`th allocation failing until nothing is left that could; the one
    /// after it, with none that fails, is to be well. How many were refused.
    template <class Once>
    long sweep(long stride, Once&& once) {
        unsigned char seed = 0;
        EXPECT_EQ(once(++seed, -1), RYF_OK) << ryf_last_error();
        long at = 0, refused = 0;
        for (int without = 0; without < 3 && !HasFailure(); at += stride) {
            EXPECT_LT(at, 200'000) << "it never ends";
            refused += once(++seed, at) != RYF_OK ? 1 : 0;
            without = failed_ ? 0 : without + 1;
            EXPECT_EQ(once(++seed, -1), RYF_OK)
                << ryf_last_error() << "; after allocation " << at << ": " << place();
        }
        tried_ = at / stride;
        return refused;
    }
    /// Of a side that is made, which takes thousands where there are many NICs.
    static long stride() { return GetParam().provider == RYF_PROVIDER_EFA ? 29 : 7; }

    Instance instance_;
    long tried_ = 0;
    bool failed_ = false;  ///< an allocation of the last round
};

TEST_P(FlowShortage, OnceFromAnInitiatorsCreationToItsGrain) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    EXPECT_GT(sweep(stride(), [&](unsigned char seed, long at) { return send_once(target, seed, at); }), 5)
        << "of " << tried_;
}

TEST_P(FlowShortage, OnceFromATargetsCreationToItsGrain) {
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    EXPECT_GT(sweep(stride(), [&](unsigned char seed, long at) { return take_once(initiator, seed, at); }), 5)
        << "of " << tried_;
}

TEST_P(FlowShortage, OfAnInitiatorThatIsAnsweredWhileGrainsWait) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    for (const bool lasting : {false, true}) {
        SCOPED_TRACE(lasting ? "from one on, each" : "one");
        for (long at = 0; at < 60 && !HasFailure(); at += 3)
            send_early(target, static_cast<unsigned char>(at + 1), at, lasting);
    }
}

/// In the middle of every other look.
TEST_P(FlowShortage, OfATargetThatAnswersAllWhoCome) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    std::uint32_t chance = 1;
    for (int i = 0; i < 30 && !HasFailure(); ++i) {
        SCOPED_TRACE("initiator " + std::to_string(i));
        Initiator initiator(instance_, GetParam(), ring_size, grain_length);
        const auto index = static_cast<std::uint32_t>(i % ring_size);
        const auto seed = static_cast<unsigned char>(i + 1);
        initiator.ring.fill(index, seed);
        ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, index));
        ryf_grain grain{};
        ryf_status got = RYF_ERR_NOT_READY;
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (got == RYF_ERR_NOT_READY && std::chrono::steady_clock::now() < limit) {
            const ryf_status status = ryf_initiator_make_progress(initiator.handle);
            EXPECT_TRUE(status == RYF_OK || status == RYF_ERR_NOT_READY) << words(status);
            chance = chance * 1664525u + 1013904223u;
            if (chance >> 31) arm((chance >> 23) % 256, true);
            got = ryf_target_try_new_grain(target.handle, &grain);
            disarm();
        }
        EXPECT_RYF(got) << place();
        EXPECT_TRUE(target.ring.holds(index, seed));
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowShortage, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
