// SEND and RECV on efa-direct.
#include <gtest/gtest.h>
#include <rdma/fi_ext.h>

#include <cstring>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

struct Messages : Pair {
    using Pair::Pair;
    ssize_t receive(std::size_t offset, std::size_t length, void* context = nullptr) {
        return fi_recv(right.endpoint, target.data() + offset, length, fi_mr_desc(target_region),
                       FI_ADDR_UNSPEC, context);
    }
    ssize_t send(std::size_t offset, std::size_t length, void* context = nullptr) {
        return fi_send(left.endpoint, source.data() + offset, length, fi_mr_desc(source_region), to_right,
                       context);
    }
};

TEST(Message, GoesIntoThePostedBuffer) {
    Messages pair;
    int sent = 0, received = 0;
    ASSERT_EQ(pair.receive(0, 8760, &received), 0);
    ASSERT_EQ(pair.send(0, 8760, &sent), 0);
    const Done out = pair.left.wait();
    EXPECT_EQ(out.context, &sent);
    EXPECT_EQ(out.flags, FI_MSG | FI_SEND);
    const Done in = pair.right.wait();
    EXPECT_EQ(in.context, &received);
    EXPECT_EQ(in.flags, FI_MSG | FI_RECV);
    EXPECT_EQ(in.length, 8760U);
    EXPECT_EQ(in.source, pair.to_left);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 8760), 0);
}

TEST(Message, LongerThanTheMtuIsRefused) {
    Messages pair;
    EXPECT_EQ(pair.send(0, 8761), -FI_EMSGSIZE);
}

TEST(Message, UnknownSendersAreReceivedWithoutASource) {
    Messages pair;
    ASSERT_EQ(fi_av_remove(pair.right.vector, &pair.to_left, 1, 0), 0);
    ASSERT_EQ(pair.receive(0, 64), 0);
    ASSERT_EQ(pair.send(0, 64), 0);
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_EQ(pair.right.wait().source, FI_ADDR_NOTAVAIL);
}

TEST(Message, ThePassiveTargetTakesManyWithoutPolling) {
    Messages pair;
    for (std::size_t i = 0; i < 500; ++i)
        ASSERT_EQ(pair.receive(i * 64, 64, &pair.target[i * 64]), 0);
    for (std::size_t i = 0; i < 500; ++i) {
        ASSERT_EQ(pair.send(i * 64, 64), 0);
        EXPECT_EQ(pair.left.wait().status, 0);
    }
    for (int i = 0; i < 500; ++i)
        EXPECT_EQ(pair.right.wait().length, 64U);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 500 * 64), 0);
}

TEST(Message, WaitsForAReceiveBuffer) {
    Messages pair;
    Control control;
    ASSERT_EQ(pair.send(0, 8), 0);
    EXPECT_TRUE(pair.left.quiet_for(5));
    EXPECT_GT(control.counter("not_ready"), 0U);
    ASSERT_EQ(pair.receive(0, 8), 0);
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_EQ(pair.right.wait().length, 8U);
}

TEST(Message, GivesUpWithoutABufferWhereTheEndpointSaysSo) {
    SideOptions options;
    options.enable = false;
    Side left(options), right;
    const std::size_t retries = 2;
    ASSERT_EQ(
        fi_setopt(&left.endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &retries, sizeof(retries)), 0);
    left.enable();
    const fi_addr_t to_right = left.insert(right.name());
    char buffer[8] = {};
    fid_mr* region = left.add_region(buffer, sizeof(buffer));
    ASSERT_EQ(fi_send(left.endpoint, buffer, 8, fi_mr_desc(region), to_right, nullptr), 0);
    const Done done = left.wait();
    EXPECT_EQ(done.status, 10);
    EXPECT_EQ(done.error, FI_ENORX);
}

TEST(Message, TooLongForTheBufferFailsAtBothSides) {
    Messages pair;
    ASSERT_EQ(pair.receive(0, 16), 0);
    ASSERT_EQ(pair.send(0, 64), 0);
    EXPECT_EQ(pair.left.wait().status, 11);
    EXPECT_EQ(pair.right.wait().status, 11);
    EXPECT_EQ(pair.target[0], 0);
}

TEST(Message, InjectTakesTheBytesAtOnceAndTellsNothing) {
    Messages pair;
    ASSERT_EQ(pair.receive(0, 64), 0);
    char text[32] = "inline data of thirty-two bytes";
    ASSERT_EQ(fi_inject(pair.left.endpoint, text, 32, pair.to_right), 0);
    std::memset(text, 0, sizeof(text));
    EXPECT_TRUE(pair.left.quiet_for(2));
    EXPECT_EQ(pair.right.wait().length, 32U);
    EXPECT_STREQ(reinterpret_cast<const char*>(pair.target.data()), "inline data of thirty-two bytes");
    EXPECT_EQ(fi_inject(pair.left.endpoint, pair.source.data(), 33, pair.to_right), -FI_EINVAL);
}

TEST(Message, CarriesImmediateData) {
    Messages pair;
    ASSERT_EQ(pair.receive(0, 64), 0);
    ASSERT_EQ(fi_senddata(pair.left.endpoint, pair.source.data(), 8, fi_mr_desc(pair.source_region), 77,
                          pair.to_right, nullptr),
              0);
    EXPECT_EQ(pair.left.wait().status, 0);
    const Done in = pair.right.wait();
    EXPECT_EQ(in.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(in.data, 77U);
}

TEST(Message, ReceiveBuffersAreLimitedAndMustBeRegistered) {
    SideOptions options;
    options.receive_size = 16;
    Messages pair(options);
    for (int i = 0; i < 16; ++i)
        ASSERT_EQ(pair.receive(0, 64), 0);
    EXPECT_EQ(pair.receive(0, 64), -FI_EAGAIN);
    EXPECT_EQ(fi_recv(pair.right.endpoint, pair.target.data(), 8, nullptr, FI_ADDR_UNSPEC, nullptr),
              -FI_EINVAL);
}

}  // namespace
}  // namespace simefa::test
