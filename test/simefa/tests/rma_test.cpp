// READ and WRITE on efa-direct: bytes, limits, errors, doorbells.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

TEST(Rma, WritesLandWhereTheyShouldAndNowhereElse) {
    Pair pair;
    ASSERT_EQ(pair.write(100, 1000), 0);
    const Done done = pair.wait_left();
    EXPECT_EQ(done.status, 0);
    EXPECT_EQ(done.flags, FI_RMA | FI_WRITE);
    EXPECT_EQ(std::memcmp(pair.target.data() + 100, pair.source.data() + 100, 1000), 0);
    EXPECT_EQ(std::count(pair.target.begin(), pair.target.begin() + 100, 0), 100);
    EXPECT_EQ(std::count(pair.target.begin() + 1100, pair.target.end(), 0),
              static_cast<std::ptrdiff_t>(pair.target.size()) - 1100);
}

TEST(Rma, ReadsFetch) {
    Pair pair;
    fill(pair.target, 7);
    ASSERT_EQ(pair.read(0, pair.source.size()), 0);
    const Done done = pair.wait_left();
    EXPECT_EQ(done.status, 0);
    EXPECT_EQ(done.flags, FI_RMA | FI_READ);
    EXPECT_EQ(pair.source, pair.target);
}

TEST(Rma, SeveralLocalPieces) {
    Pair pair;
    iovec pieces[4];
    void* descriptors[4];
    for (int i = 0; i < 4; ++i) {
        pieces[i] = {pair.source.data() + i * 1000, 100};
        descriptors[i] = fi_mr_desc(pair.source_region);
    }
    const fi_rma_iov remote{pair.remote(), 400, fi_mr_key(pair.target_region)};
    fi_msg_rma message{pieces, descriptors, 4, pair.to_right, &remote, 1, nullptr, 0};
    ASSERT_EQ(fi_writemsg(pair.left.endpoint, &message, FI_COMPLETION), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(std::memcmp(pair.target.data() + i * 100, pair.source.data() + i * 1000, 100), 0);
    message.iov_count = 5;
    EXPECT_EQ(fi_writemsg(pair.left.endpoint, &message, FI_COMPLETION), -FI_EINVAL);
}

TEST(Rma, TheTargetMustKnowTheInitiator) {
    Pair pair;
    ASSERT_EQ(fi_av_remove(pair.right.vector, &pair.to_left, 1, 0), 0);
    for (const bool write : {true, false}) {
        ASSERT_EQ(write ? pair.write(0, 8) : pair.read(0, 8), 0);
        const Done done = pair.wait_left();
        EXPECT_EQ(done.status, 14);
        EXPECT_EQ(done.error, FI_ENOTCONN);
    }
    pair.right.insert(pair.left.name());
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST(Rma, BoundsAndKeysAreEnforced) {
    Pair pair;
    const std::size_t size = pair.target.size();
    const std::uint64_t key = fi_mr_key(pair.target_region);
    auto attempt = [&](std::uint64_t address, std::size_t length, std::uint64_t with) {
        EXPECT_EQ(
            pair.left.write(pair.source.data(), length, pair.source_region, pair.to_right, address, with), 0);
        return pair.wait_left().status;
    };
    EXPECT_EQ(attempt(pair.remote(size - 8), 8, key), 0);
    EXPECT_EQ(attempt(pair.remote(size - 7), 8, key), 7);
    EXPECT_EQ(attempt(pair.remote() - 1, 8, key), 7);
    EXPECT_EQ(attempt(UINT64_MAX - 3, 8, key), 7);
    EXPECT_EQ(attempt(pair.remote(), 8, key + 1), 7);
    EXPECT_EQ(attempt(pair.remote(), 8, 0), 7);
    EXPECT_EQ(attempt(pair.remote(), 8, key | 1ULL << 32), 7);
}

TEST(Rma, AccessRightsAreEnforced) {
    Pair pair;
    fid_mr* readable = pair.right.add_region(pair.target.data(), 64, FI_REMOTE_READ);
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(),
                              fi_mr_key(readable)),
              0);
    EXPECT_EQ(pair.wait_left().status, 7);
    ASSERT_EQ(pair.left.read(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(),
                             fi_mr_key(readable)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST(Rma, KeysOfClosedRegionsStayDead) {
    Pair pair;
    const std::uint64_t key = fi_mr_key(pair.target_region);
    pair.right.close_region(pair.target_region);
    pair.target_region = pair.right.add_region(pair.target.data(), pair.target.size());
    EXPECT_NE(fi_mr_key(pair.target_region), key);
    EXPECT_LE(fi_mr_key(pair.target_region), UINT32_MAX);
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(), key),
              0);
    EXPECT_EQ(pair.wait_left().status, 7);
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST(Rma, LocalMemoryMustBeRegistered) {
    Pair pair;
    const std::uint64_t key = fi_mr_key(pair.target_region);
    EXPECT_EQ(pair.left.write(pair.source.data(), 8, nullptr, pair.to_right, pair.remote(), key), -FI_EINVAL);
    // A descriptor of another domain, and a buffer outside its region: the device reports.
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, pair.target_region, pair.to_right, pair.remote(), key),
              0);
    EXPECT_EQ(pair.wait_left().status, 5);
    ASSERT_EQ(pair.left.write(pair.source.data() + pair.source.size() - 4, 8, pair.source_region,
                              pair.to_right, pair.remote(), key),
              0);
    const Done done = pair.wait_left();
    EXPECT_EQ(done.status, 5);
    EXPECT_EQ(done.error, FI_EINVAL);
}

TEST(Rma, TooLongIsRefused) {
    Pair pair;
    EXPECT_EQ(pair.left.write(pair.source.data(), (std::size_t{1} << 30) + 1, pair.source_region,
                              pair.to_right, pair.remote(), fi_mr_key(pair.target_region)),
              -FI_EMSGSIZE);
}

TEST(Rma, ImmediateDataArrivesAfterTheBytes) {
    Pair pair;
    ASSERT_EQ(pair.left.write(pair.source.data(), 500, pair.source_region, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr,
                              0x1234abcd),
              0);
    EXPECT_EQ(pair.left.wait().status, 0);
    const Done notice = pair.right.wait();
    EXPECT_EQ(notice.flags, FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE);
    EXPECT_EQ(notice.data, 0x1234abcdU);
    EXPECT_EQ(notice.length, 500U);
    EXPECT_EQ(notice.context, nullptr);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 500), 0);
}

TEST(Rma, ImmediateDataTakesAReceiveBufferWhereSaid) {
    SideOptions options;
    options.more_mode = FI_RX_CQ_DATA;
    Pair pair(options);
    int context = 0;
    ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data(), 64, fi_mr_desc(pair.target_region),
                      FI_ADDR_UNSPEC, &context),
              0);
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr, 5),
              0);
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_EQ(pair.right.wait().context, &context);
    Side other{{.nic = 1}};  // with the feature: the two sides disagree
    const fi_addr_t position = other.insert(pair.right.name());
    pair.right.insert(other.name());
    fid_mr* region = other.add_region(pair.source.data(), pair.source.size());
    ASSERT_EQ(other.write(pair.source.data(), 8, region, position, pair.remote(),
                          fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr, 5),
              0);
    EXPECT_EQ(other.wait().status, 18);
}

TEST(Rma, MoreKeepsTheDoorbellUntilTheBatchIsClosed) {
    Control control;
    Pair pair;
    const std::uint64_t before = control.counter("doorbells");
    for (int i = 0; i < 15; ++i)
        ASSERT_EQ(pair.write(8 * i, 8, FI_COMPLETION | FI_MORE), 0);
    EXPECT_TRUE(pair.left.quiet_for(5)) << "polling rang the doorbell";
    EXPECT_EQ(control.counter("doorbells"), before);
    ASSERT_EQ(pair.write(8 * 15, 8), 0);
    for (int i = 0; i < 16; ++i)
        EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(control.counter("doorbells"), before + 1);
    EXPECT_EQ(control.counter("max_in_flight"), 16U);
}

TEST(Rma, AFullBatchOrAFailedPostRingsToo) {
    Control control;
    control.set("max_batch=4");
    Pair pair;
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(pair.write(0, 8, FI_COMPLETION | FI_MORE), 0);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_TRUE(pair.left.quiet_for(2));
    EXPECT_EQ(pair.left.write(pair.source.data(), 8, nullptr, pair.to_right, pair.remote(), 0), -FI_EINVAL);
    EXPECT_EQ(pair.wait_left().status, 0);
    control.reset();
}

TEST(Rma, AFullTransmitQueueAnswersEagain) {
    SideOptions options;
    options.transmit_size = 64;
    Pair pair(options);
    for (int i = 0; i < 64; ++i)
        ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.write(0, 8), -FI_EAGAIN);
    EXPECT_EQ(pair.wait_left().status, 0);
    for (int i = 1; i < 64; ++i)
        EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST(Rma, ASlotOfTheVectorGoesToANewPeerWhileTheOldOnesWritesAreUnderWay) {
    Pair pair;
    Side other{{.nic = 1}};
    other.insert(pair.left.name());
    std::vector<std::uint8_t> elsewhere(64);
    fid_mr* region = other.add_region(elsewhere.data(), elsewhere.size());
    ASSERT_EQ(pair.write(0, 64), 0);
    ASSERT_EQ(fi_av_remove(pair.left.vector, &pair.to_right, 1, 0), 0);
    EXPECT_EQ(pair.left.insert(other.name()), pair.to_right);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_TRUE(std::equal(pair.target.begin(), pair.target.begin() + 64, pair.source.begin()));
    ASSERT_EQ(pair.left.write(pair.source.data(), 64, pair.source_region, pair.to_right,
                              reinterpret_cast<std::uint64_t>(elsewhere.data()), fi_mr_key(region)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_TRUE(std::equal(elsewhere.begin(), elsewhere.end(), pair.source.begin()));
}

TEST(Rma, AClosedEndpointIsNoQueuePairAnyMore) {
    Pair pair;
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    pair.right.close_endpoint();
    ASSERT_EQ(pair.write(0, 8), 0);
    const Done done = pair.left.wait();
    EXPECT_EQ(done.status, 9);
    EXPECT_EQ(done.error, FI_ENOTCONN);
}

TEST(Rma, NothingLandsAfterTheInitiatorClosed) {
    Control control;
    control.set("latency_us=2000");
    Pair pair;
    ASSERT_EQ(pair.write(0, 64), 0);
    pair.left.close_endpoint();
    EXPECT_TRUE(pair.right.quiet_for(10));
    EXPECT_EQ(std::count(pair.target.begin(), pair.target.end(), 0),
              static_cast<std::ptrdiff_t>(pair.target.size()));
    control.reset();
}

TEST(Rma, SelectiveCompletionIsSilentUnlessAsked) {
    SideOptions options;
    options.bind_flags = FI_SELECTIVE_COMPLETION;
    Pair pair(options);
    ASSERT_EQ(pair.write(0, 8, 0), 0);
    int context = 0;
    ASSERT_EQ(pair.write(8, 8, FI_COMPLETION, &context), 0);
    EXPECT_EQ(pair.wait_left().context, &context);
    EXPECT_TRUE(pair.left.quiet_for(2));
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 16), 0);
}

}  // namespace
}  // namespace simefa::test
