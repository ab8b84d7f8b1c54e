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
        // What a peer could not be told is said again after a while: that is not waited for.
        const std::uint32_t patience_ms = at >= 0 ? 300 : 20'000;
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
        if (status == RYF_OK) status = ryf_target_wait_for_new_grain(target.handle, &grain, patience_ms);
        if (status == RYF_OK) {
            EXPECT_EQ(grain.index, 1u);
            EXPECT_TRUE(target.ring.holds(1, seed)) << "allocation " << at;
        }
        EXPECT_EQ(ryf_initiator_destroy(initiator), RYF_OK);
        return status;
    }
    Instance instance_;
};

TEST_P(FlowShortage, OnceFromAnInitiatorsCreationToItsGrain) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    unsigned char seed = 0;
    ASSERT_EQ(send_once(target, ++seed, -1), RYF_OK) << ryf_last_error();
    const long stride = GetParam().provider == RYF_PROVIDER_EFA ? 17 : 7;
    long at = 0, refused = 0;
    for (int without = 0; without < 3 && !HasFailure(); at += stride) {
        ASSERT_LT(at, 200'000) << "it never ends";
        const ryf_status status = send_once(target, ++seed, at);
        without = shortage.left >= 0 ? without + 1 : 0;
        refused += status != RYF_OK ? 1 : 0;
        EXPECT_EQ(send_once(target, ++seed, -1), RYF_OK)
            << ryf_last_error() << "; after allocation " << at << ": " << place();
    }
    EXPECT_GT(refused, 5) << "of " << at / stride;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowShortage, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
