// Fabric efa: handshake, emulation, messages of any length, tags, order.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

using Clock = std::chrono::steady_clock;

SideOptions rdm(unsigned nic = 0) {
    SideOptions options;
    options.fabric = "efa";
    options.nic = nic;
    options.more_caps = FI_TAGGED;
    return options;
}

class Rdm : public testing::Test {
  protected:
    ~Rdm() override { control.reset(); }
    void emulate() {
        control.set("rdma_read=off");
        control.set("rdma_write=off");
    }
    Control control;
};

bool emulated(Side& side, int option) {
    bool value = false;
    std::size_t length = sizeof(value);
    EXPECT_EQ(fi_getopt(&side.endpoint->fid, FI_OPT_ENDPOINT, option, &value, &length), 0);
    return value;
}

constexpr int emulated_read = -(0xefa << 16) + 1, emulated_write = emulated_read + 1;

/// Completions of both sides until the left has one and the right, if wanted, too.
struct Both {
    std::optional<Done> left, right;
};
Both wait_both(Pair& pair, bool right_too, int limit_ms = 10'000) {
    Both both;
    const auto limit = Clock::now() + std::chrono::milliseconds(limit_ms);
    while ((!both.left || (right_too && !both.right)) && Clock::now() < limit) {
        if (!both.left) both.left = pair.left.poll();
        if (auto done = pair.right.poll()) both.right = done;
        std::this_thread::yield();
    }
    EXPECT_TRUE(both.left);
    EXPECT_EQ(both.right.has_value(), right_too);
    return both;
}

TEST_F(Rdm, TheFirstWriteWaitsForTheTargetsProgress) {
    Pair pair(rdm());
    for (int i = 0; i < 16; ++i)
        ASSERT_EQ(pair.write(0, 8), 0) << i;
    EXPECT_EQ(pair.write(0, 8), -FI_EAGAIN);
    EXPECT_EQ(pair.read(0, 8), -FI_EAGAIN);
    EXPECT_TRUE(pair.left.quiet_for(10)) << "nobody polled the target";
    EXPECT_EQ(pair.write(0, 8), -FI_EAGAIN);
    for (int i = 0; i < 16; ++i)
        EXPECT_EQ(pair.wait_left().status, 0);
    // From now on the device does it alone.
    ASSERT_EQ(pair.write(8, 8), 0);
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 16), 0);
}

TEST_F(Rdm, NativeOperationsNeedNoRegisteredSourceAndNoKnownInitiator) {
    Pair pair(rdm());
    ASSERT_EQ(fi_av_remove(pair.right.vector, &pair.to_left, 1, 0), 0);
    ASSERT_EQ(pair.left.write(pair.source.data(), 5000, nullptr, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region)),
              0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 5000), 0);
    EXPECT_FALSE(emulated(pair.left, emulated_write));
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, nullptr, pair.to_right, pair.remote(), 12345), 0);
    EXPECT_EQ(pair.left.wait().status, 7);
}

TEST_F(Rdm, OldDevicesEmulate) {
    emulate();
    Pair pair(rdm(), 1 << 20);
    EXPECT_TRUE(emulated(pair.left, emulated_read));
    EXPECT_TRUE(emulated(pair.left, emulated_write));
    ASSERT_EQ(pair.write(0, 1 << 20, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(pair.source, pair.target);
    fill(pair.target, 99);
    ASSERT_EQ(pair.read(0, 1 << 20), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(pair.source, pair.target);
    EXPECT_EQ(control.counter("writes"), 0U);
    EXPECT_EQ(control.counter("reads"), 0U);
}

TEST_F(Rdm, OneReceiptForAWriteOfManyPackets) {
    emulate();
    Pair pair{rdm(0), rdm(1)};
    ASSERT_EQ(pair.write(0, pair.source.size(), FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_TRUE(pair.right.quiet_for(2));
    EXPECT_EQ(control.counter("sends", {"*", nic_name(1)}), 2U) << "the handshake and the receipt";
}

TEST_F(Rdm, ReadOnlyDevicesEmulateWritesOnly) {
    control.set("rdma_write=off");
    Pair pair(rdm());
    EXPECT_FALSE(emulated(pair.left, emulated_read));
    EXPECT_TRUE(emulated(pair.left, emulated_write));
    ASSERT_EQ(pair.read(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(control.counter("reads"), 1U);
    EXPECT_EQ(control.counter("writes"), 0U);
}

TEST_F(Rdm, OneOldSideIsEnoughToEmulate) {
    control.set("rdma_write=off", {"*", nic_name(1)});
    Pair pair{rdm(0), rdm(1)};
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(control.counter("writes"), 0U);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 8), 0);
}

TEST_F(Rdm, ApiVersionsBeforeDeviceRdmaEmulate) {
    SideOptions options = rdm();
    options.version = FI_VERSION(1, 11);
    Pair pair(options);
    EXPECT_TRUE(emulated(pair.left, emulated_write));
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(control.counter("writes"), 0U);
}

TEST_F(Rdm, EmulatedWritesCompleteBeforePlacementUnlessAskedForDelivery) {
    emulate();
    Pair pair(rdm());
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 0);  // and the handshake is over
    ASSERT_EQ(pair.write(100, 100), 0);
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_EQ(pair.target[100], 0) << "placed without the target's progress";
    ASSERT_EQ(pair.write(300, 100, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EXPECT_TRUE(pair.left.quiet_for(5));
    EXPECT_EQ(wait_both(pair, false).left->status, 0);
    EXPECT_EQ(std::memcmp(pair.target.data() + 100, pair.source.data() + 100, 100), 0);
    EXPECT_EQ(std::memcmp(pair.target.data() + 300, pair.source.data() + 300, 100), 0);
}

TEST_F(Rdm, EmulationChecksKeysAndBounds) {
    emulate();
    Pair pair(rdm());
    const std::uint64_t key = fi_mr_key(pair.target_region);
    auto write = [&](std::size_t length, std::uint64_t with) {
        EXPECT_EQ(pair.left.write(pair.source.data(), length, nullptr, pair.to_right, pair.remote(8), with,
                                  FI_COMPLETION | FI_DELIVERY_COMPLETE),
                  0);
        return wait_both(pair, false).left->status;
    };
    EXPECT_EQ(write(8, key), 0);
    EXPECT_EQ(write(pair.source.size(), key), 7);
    EXPECT_EQ(write(8, key + 1), 7);
    ASSERT_EQ(pair.left.read(pair.source.data(), 8, nullptr, pair.to_right, pair.remote(), key + 1), 0);
    EXPECT_EQ(wait_both(pair, false).left->status, 7);
    EXPECT_EQ(pair.target[20], 0);
}

TEST_F(Rdm, EmulatedImmediateDataArrives) {
    emulate();
    Pair pair(rdm());
    ASSERT_EQ(pair.left.write(pair.source.data(), 20'000, nullptr, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr, 42),
              0);
    const Both both = wait_both(pair, true);
    EXPECT_EQ(both.right->data, 42U);
    EXPECT_EQ(both.right->length, 20'000U);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 20'000), 0);
}

TEST_F(Rdm, ImmediateDataOfDevicesThatDisagreeIsRefused) {
    control.set("unsolicited_write_recv=off", {"*", nic_name(1)});
    Pair pair(rdm(0), rdm(1));
    const auto write = [&] {
        return pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(),
                               fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr, 7);
    };
    ASSERT_EQ(write(), 0) << "it waits for the handshake";
    const Done refused = pair.wait_left();
    EXPECT_EQ(refused.error, FI_EOPNOTSUPP);
    EXPECT_EQ(refused.status, 4100);
    EXPECT_EQ(write(), -FI_EOPNOTSUPP);
    ASSERT_EQ(pair.write(0, 8), 0) << "without";
    EXPECT_EQ(pair.wait_left().status, 0);
}

TEST_F(Rdm, ImmediateDataOfDevicesTakesReceiveBuffersOnBothSides) {
    control.set("unsolicited_write_recv=off");
    Pair pair(rdm(0), rdm(1));
    for (std::uint64_t i = 0; i < 600; ++i) {
        ASSERT_EQ(
            pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, pair.remote(),
                            fi_mr_key(pair.target_region), FI_COMPLETION | FI_REMOTE_CQ_DATA, nullptr, i),
            0);
        const Both both = wait_both(pair, true);
        ASSERT_TRUE(both.left && both.right);
        ASSERT_EQ(both.left->status, 0);
        EXPECT_EQ(both.right->data, i);
        EXPECT_TRUE(both.right->flags & FI_REMOTE_CQ_DATA);
    }
}

TEST_F(Rdm, MessagesOfAnyLength) {
    Pair pair(rdm(), 1 << 20);
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{1}, std::size_t{9000}, std::size_t{1} << 20}) {
        std::fill(pair.target.begin(), pair.target.end(), 0);
        ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data(), pair.target.size(), nullptr,
                          FI_ADDR_UNSPEC, &pair.target),
                  0);
        ASSERT_EQ(
            fi_send(pair.left.endpoint, pair.source.data(), length, nullptr, pair.to_right, &pair.source), 0);
        const Both both = wait_both(pair, true);
        EXPECT_EQ(both.left->context, &pair.source);
        EXPECT_EQ(both.right->context, &pair.target);
        EXPECT_EQ(both.right->length, length);
        EXPECT_EQ(both.right->source, pair.to_left);
        EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), length), 0);
    }
}

TEST_F(Rdm, MessagesBeforeTheirBufferAreKept) {
    Pair pair(rdm());
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data() + i * 10'000, 10'000, nullptr, pair.to_right,
                          nullptr),
                  0);
    EXPECT_TRUE(pair.right.quiet_for(5));
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data() + i * 10'000, 10'000, nullptr,
                          FI_ADDR_UNSPEC, nullptr),
                  0);
    int messages = 0, sends = 0;
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while ((messages < 3 || sends < 3) && Clock::now() < limit) {
        messages += pair.right.poll() ? 1 : 0;
        sends += pair.left.poll() ? 1 : 0;
        std::this_thread::yield();
    }
    EXPECT_EQ(messages, 3);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 30'000), 0);
}

TEST_F(Rdm, MessagesStayInOrderOnAnUnorderedDeviceWhereThatIsAskedFor) {
    control.set("out_of_order=1");
    control.set("jitter_us=300");
    SideOptions options = rdm();
    options.order = FI_ORDER_SAS;
    Pair pair(options);
    constexpr int count = 200;
    for (int i = 0; i < count; ++i)
        ASSERT_EQ(
            fi_recv(pair.right.endpoint, pair.target.data() + i * 4, 4, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    int sent = 0, done = 0, received = 0;
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while ((received < count || done < count) && Clock::now() < limit) {
        if (sent < count && fi_send(pair.left.endpoint, pair.source.data() + sent * 4, 4, nullptr,
                                    pair.to_right, nullptr) == 0)
            ++sent;
        done += pair.left.poll() ? 1 : 0;
        received += pair.right.poll() ? 1 : 0;
        std::this_thread::yield();
    }
    EXPECT_EQ(received, count);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), count * 4), 0);
}

/// In order, all that follows it would wait for it.
TEST_F(Rdm, AMessageThatFailsHoldsNoOtherUp) {
    Pair pair(rdm());
    for (int i = 0; i < 2; ++i)
        ASSERT_EQ(
            fi_recv(pair.right.endpoint, pair.target.data() + i * 8, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    control.set("error_next=1");
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data(), 8, nullptr, pair.to_right, nullptr), 0);
    EXPECT_NE(pair.left.wait().error, 0);
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data() + 8, 8, nullptr, pair.to_right, nullptr), 0);
    const Both both = wait_both(pair, true);
    EXPECT_EQ(both.right->error, 0);
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data() + 8, 8), 0);
}

TEST_F(Rdm, TagsChooseTheBuffer) {
    Pair pair(rdm());
    ASSERT_EQ(
        fi_trecv(pair.right.endpoint, pair.target.data(), 8, nullptr, FI_ADDR_UNSPEC, 0x10, 0x0f, &pair.left),
        0);
    ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data() + 8, 8, nullptr, FI_ADDR_UNSPEC, &pair.right),
              0);
    ASSERT_EQ(fi_tsend(pair.left.endpoint, pair.source.data(), 8, nullptr, pair.to_right, 0x1a, nullptr), 0);
    Both both = wait_both(pair, true);
    EXPECT_EQ(both.right->context, &pair.left);
    EXPECT_EQ(both.right->flags, FI_TAGGED | FI_RECV);
    EXPECT_EQ(both.right->tag, 0x1aU);
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data(), 8, nullptr, pair.to_right, nullptr), 0);
    both = wait_both(pair, true);
    EXPECT_EQ(both.right->context, &pair.right);
}

TEST_F(Rdm, InjectedWritesTakeTheBytesAtOnce) {
    Pair pair(rdm());
    std::vector<std::uint8_t> bytes = pair.source;
    ASSERT_EQ(fi_inject_write(pair.left.endpoint, bytes.data(), 4096, pair.to_right, pair.remote(),
                              fi_mr_key(pair.target_region)),
              0);
    std::fill(bytes.begin(), bytes.end(), 0);
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (std::memcmp(pair.target.data(), pair.source.data(), 4096) != 0 && Clock::now() < limit) {
        EXPECT_FALSE(pair.left.poll());
        EXPECT_FALSE(pair.right.poll());
        std::this_thread::yield();
    }
    EXPECT_EQ(std::memcmp(pair.target.data(), pair.source.data(), 4096), 0);
}

TEST_F(Rdm, AHandshakeWithAClosedPeerFailsWhatWaitsForIt) {
    control.set("timeout_ms=20");
    Pair pair(rdm());
    pair.right.close_endpoint();
    ASSERT_EQ(pair.write(0, 8), 0);
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.left.wait().status, 9);
    EXPECT_EQ(pair.left.wait().status, 9);
}

TEST_F(Rdm, AHandshakeOverADownLinkFails) {
    control.set("timeout_ms=20");
    Pair pair(rdm());
    control.set("link=down");
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.left.wait().status, 13);
    control.set("link=up");
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
}

/// So that whoever closes one in order to be rid of what is under way waits for just that.
TEST_F(Rdm, AnEndpointClosesWhenAllThatItHasSentHasEnded) {
    Pair pair(rdm());
    ASSERT_EQ(pair.write(0, 8), 0);
    ASSERT_EQ(pair.wait_left().status, 0);
    control.set("timeout_ms=300");
    control.set("link=down");
    ASSERT_EQ(pair.write(0, 8), 0);
    const auto start = Clock::now();
    pair.left.close_endpoint();
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(250));
    EXPECT_EQ(pair.left.wait().status, 13);
}

/// Here with a limit.
TEST_F(Rdm, AnEndpointClosesWithoutWhatNeverEnds) {
    Pair pair(rdm());
    ASSERT_EQ(pair.write(0, 8), 0);
    ASSERT_EQ(pair.wait_left().status, 0);
    for (const char* setting : {"timeout_ms=60000", "close_wait_ms=100", "link=down"})
        control.set(setting);
    ASSERT_EQ(pair.write(0, 8), 0);
    const auto start = Clock::now();
    pair.left.close_endpoint();
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(100));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

/// An operation that is put off for a handshake has not been sent: only the question has.
TEST_F(Rdm, AnEndpointClosesWithoutWhatWaitsForAHandshake) {
    Pair pair(rdm());
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_TRUE(pair.left.quiet_for(20));
    const auto start = Clock::now();
    pair.left.close_endpoint();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace simefa::test
