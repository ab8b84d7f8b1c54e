// Completion queues: waiting, overrun, internal errors.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

int wait_descriptor(Side& side) {
    int descriptor = -1;
    EXPECT_EQ(fi_control(&side.queue->fid, FI_GETWAIT, &descriptor), 0);
    return descriptor;
}

bool may_sleep(Side& side) {
    fid* handle = &side.queue->fid;
    return fi_trywait(side.fabric, &handle, 1) == 0;
}

/// Sleeps as a client does: only after fi_trywait, never polling. False: nothing for `ms`.
bool sleep_until_readable(Side& side, int ms) {
    if (!may_sleep(side)) return true;
    pollfd descriptor{wait_descriptor(side), POLLIN, 0};
    return poll(&descriptor, 1, ms) == 1;
}

TEST(Queue, SleepsUntilItsOwnOperationIsDue) {
    Control control;
    control.set("latency_us=3000");
    Pair pair;
    ASSERT_EQ(pair.write(0, 8), 0);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(sleep_until_readable(pair.left, 5000));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
    EXPECT_EQ(pair.left.wait(1000).status, 0);
    EXPECT_TRUE(may_sleep(pair.left));
    EXPECT_FALSE(sleep_until_readable(pair.left, 5)) << "the descriptor stays readable with nothing to read";
    control.reset();
}

/// The right side is told that it may sleep; then `meanwhile`, and a message.
void expect_woken_by_a_message(Pair& pair, const std::function<void()>& meanwhile) {
    ASSERT_EQ(fi_recv(pair.right.endpoint, pair.target.data(), 64, fi_mr_desc(pair.target_region),
                      FI_ADDR_UNSPEC, nullptr),
              0);
    ASSERT_TRUE(may_sleep(pair.right));
    meanwhile();
    ASSERT_EQ(fi_send(pair.left.endpoint, pair.source.data(), 8, fi_mr_desc(pair.source_region),
                      pair.to_right, nullptr),
              0);
    EXPECT_EQ(pair.left.wait().status, 0);
    pollfd descriptor{wait_descriptor(pair.right), POLLIN, 0};
    ASSERT_EQ(poll(&descriptor, 1, 5000), 1) << "it had been told that it may sleep";
    EXPECT_EQ(pair.right.wait(1000).length, 8U);
}

TEST(Queue, SleepsUntilAMessageComes) {
    Pair pair;
    expect_woken_by_a_message(pair, [&] { EXPECT_FALSE(sleep_until_readable(pair.right, 2)); });
    EXPECT_FALSE(sleep_until_readable(pair.right, 2));
}

TEST(Queue, SleepsUntilAMessageComesWhoeverLooksMeanwhile) {
    Pair pair;
    expect_woken_by_a_message(pair, [&] { EXPECT_FALSE(pair.right.poll()); });
}

TEST(Queue, ASleeperIsWokenForWhatAnotherThreadPosted) {
    Control control;
    control.set("latency_us=500");
    Pair pair;
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(may_sleep(pair.left));
        std::thread poster([&] { ASSERT_EQ(pair.write(0, 8), 0); });
        pollfd descriptor{wait_descriptor(pair.left), POLLIN, 0};
        EXPECT_EQ(poll(&descriptor, 1, 5000), 1);
        poster.join();
        EXPECT_EQ(pair.left.wait().status, 0);
    }
    control.reset();
}

TEST(Queue, DoesNotSleepOnSomethingToRead) {
    Pair pair;
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_FALSE(may_sleep(pair.left));
    EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_TRUE(may_sleep(pair.left));
}

TEST(Queue, BlockingReadReturnsTheCompletionOrTimesOut) {
    Control control;
    control.set("latency_us=2000");
    Pair pair;
    fi_cq_tagged_entry entry;
    EXPECT_EQ(fi_cq_sread(pair.left.queue, &entry, 1, nullptr, 3), -FI_EAGAIN);
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(fi_cq_sread(pair.left.queue, &entry, 1, nullptr, 5000), 1);
    control.reset();
}

TEST(Queue, OverrunBreaksItAndIsReported) {
    SideOptions options;
    options.queue_size = 16;
    Pair pair(options);
    for (int i = 0; i < 17; ++i)
        ASSERT_EQ(pair.write(0, 8), 0);
    fi_cq_tagged_entry entries[64];
    EXPECT_EQ(fi_cq_read(pair.left.queue, entries, 64), -FI_EOVERRUN);
    EXPECT_EQ(fi_cq_read(pair.left.queue, entries, 64), -FI_EOVERRUN);
    std::uint32_t event = 0;
    fi_eq_entry ignored;
    EXPECT_EQ(fi_eq_read(pair.left.events, &event, &ignored, sizeof(ignored), 0), -FI_EAVAIL);
    fi_eq_err_entry error{};
    EXPECT_GT(fi_eq_readerr(pair.left.events, &error, 0), 0);
    EXPECT_EQ(error.err, FI_EOVERRUN);
    EXPECT_EQ(error.fid, &pair.left.endpoint->fid);
}

TEST(Queue, AsManyAsItHoldsAreFine) {
    SideOptions options;
    options.queue_size = 16;
    Pair pair(options);
    for (int i = 0; i < 16; ++i)
        ASSERT_EQ(pair.write(0, 8), 0);
    fi_cq_tagged_entry entries[64];
    EXPECT_EQ(fi_cq_read(pair.left.queue, entries, 64), 16);
}

TEST(Queue, SaysHowDeepItIs) {
    auto depth = [](const char* fabric, std::size_t wanted) {
        SideOptions options;
        options.fabric = fabric;
        Side side(options);
        fi_cq_attr attr{};
        attr.size = wanted;
        fid_cq* queue = nullptr;
        EXPECT_EQ(fi_cq_open(side.domain, &attr, &queue, nullptr), 0);
        EXPECT_EQ(fi_close(&queue->fid), 0);
        return attr.size;
    };
    EXPECT_EQ(depth("efa-direct", 0), 12288U);
    EXPECT_EQ(depth("efa-direct", 100), 100U);
    EXPECT_EQ(depth("efa", 4096), 12288U);
    EXPECT_EQ(depth("efa", 20'000), 20'000U);
}

/// As efa_base_ep_bind_av has it, in libfabric up to 2.2.
TEST(Vector, TakesOneEndpointEver) {
    for (const char* fabric : {"efa-direct", "efa"}) {
        SideOptions options;
        options.fabric = fabric;
        Side side(options);
        for (int round = 0; round < 2; ++round) {
            fid_ep* other = nullptr;
            ASSERT_EQ(fi_endpoint(side.domain, side.info.get(), &other, nullptr), 0);
            EXPECT_EQ(fi_ep_bind(other, &side.vector->fid, 0), -FI_ENOSYS);
            EXPECT_EQ(fi_close(&other->fid), 0);
            side.close_endpoint();
        }
    }
}

TEST(QueueDeathTest, WithoutAnEventQueueAnInternalErrorAborts) {
    Control control;
    SideOptions options;
    options.event_queue = false;
    EXPECT_EXIT(
        {
            std::signal(SIGABRT, SIG_DFL);  // a library that libfabric loads catches it
            Side side(options);
            control.set("internal_error_next=1");
            side.poll();
        },
        testing::KilledBySignal(SIGABRT), "no event queue");
    Side side;
    control.set("internal_error_next=1");
    EXPECT_FALSE(side.poll());
    fi_eq_err_entry error{};
    EXPECT_GT(fi_eq_readerr(side.events, &error, 0), 0);
    EXPECT_EQ(error.err, FI_EIO);
}

TEST(Queue, ErrorsAreReadInTheirTurn) {
    Pair pair;
    int first = 0, second = 0, third = 0;
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION, &first), 0);
    ASSERT_EQ(pair.left.write(pair.source.data(), 8, pair.source_region, pair.to_right, 1, 1, FI_COMPLETION,
                              &second),
              0);
    ASSERT_EQ(pair.write(0, 8, FI_COMPLETION, &third), 0);
    fi_cq_tagged_entry entries[8];
    ASSERT_EQ(fi_cq_read(pair.left.queue, entries, 8), 1);
    EXPECT_EQ(entries[0].op_context, &first);
    ASSERT_EQ(fi_cq_read(pair.left.queue, entries, 8), -FI_EAVAIL);
    fi_cq_err_entry error{};
    ASSERT_EQ(fi_cq_readerr(pair.left.queue, &error, 0), 1);
    EXPECT_EQ(error.op_context, &second);
    EXPECT_NE(fi_cq_strerror(pair.left.queue, error.prov_errno, nullptr, nullptr, 0), nullptr);
    ASSERT_EQ(fi_cq_read(pair.left.queue, entries, 8), 1);
    EXPECT_EQ(entries[0].op_context, &third);
    EXPECT_EQ(fi_cq_readerr(pair.left.queue, &error, 0), -FI_EAGAIN);
}

TEST(Queue, HasNoDescriptorBesideShm) {
    SideOptions options;
    options.fabric = "efa";
    options.wait = FI_WAIT_UNSPEC;
    options.shm = true;
    Side side(options);
    EXPECT_TRUE(side.info->caps & FI_LOCAL_COMM);
    fi_cq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_cq* queue = nullptr;
    EXPECT_EQ(fi_cq_open(side.domain, &attr, &queue, nullptr), -FI_ENOSYS);
    options.wait = FI_WAIT_FD;
    options.shm = false;
    options.nic = 1;
    const Side without(options);
    EXPECT_FALSE(without.info->caps & FI_LOCAL_COMM);
    options.fabric = "efa-direct";
    options.shm = true;
    options.nic = 2;
    const Side direct(options);
    EXPECT_TRUE(direct.info->caps & FI_LOCAL_COMM);
}

TEST(Queue, MayHaveNothingToWaitFor) {
    Control control;
    control.set("wait_objects=off");
    SideOptions options;
    options.wait = FI_WAIT_NONE;
    Side side(options);
    for (const fi_wait_obj wanted : {FI_WAIT_FD, FI_WAIT_UNSPEC}) {
        fi_cq_attr attr{};
        attr.wait_obj = wanted;
        fid_cq* queue = nullptr;
        EXPECT_EQ(fi_cq_open(side.domain, &attr, &queue, nullptr), -FI_ENOSYS);
    }
    control.reset();
}

}  // namespace
}  // namespace simefa::test
