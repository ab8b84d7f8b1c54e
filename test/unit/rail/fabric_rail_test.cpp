// The rail against a scripted provider: libfabric's calls go through tables of the endpoint and the queue,
// which the tests replace. Nothing here touches a network.
#include "rail/fabric_rail.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>

#include "common/log.h"

namespace railyard {

struct FabricRailProbe {
    /// Where operations and messages leave from.
    static fid_ep* endpoint(FabricRail& rail) {
        RoleGuard guard(rail.role_);
        return reinterpret_cast<fid_ep*>(rail.sending_->handle());
    }
    static fid_cq* queue(FabricRail& rail) { return rail.fabric_->queue.get(); }
    static std::size_t depth(FabricRail& rail) { return rail.depth_; }
};

namespace {

/// What the scripted provider answers and has seen. One at a time.
struct Script {
    std::deque<ssize_t> answers;                   // to the next posts; 0 afterwards
    std::vector<void*> posted;                     // contexts with the provider
    std::vector<std::uint64_t> flags;              // of every post, refused ones too
    std::map<std::uint64_t, std::uint64_t> bytes;  // taken, by destination
    std::deque<std::pair<void*, int>> completed;   // context, error
    int pending_error = 0;
    void* error_context = nullptr;
};
Script script;

ssize_t scripted_write(fid_ep*, const fi_msg_rma* message, std::uint64_t flags) {
    script.flags.push_back(flags);
    ssize_t answer = 0;
    if (!script.answers.empty()) {
        answer = script.answers.front();
        script.answers.pop_front();
    }
    if (answer == 0) {
        script.posted.push_back(message->context);
        script.bytes[message->addr] += message->msg_iov->iov_len;
    }
    return answer;
}

ssize_t scripted_read(fid_cq*, void* buffer, size_t count) {
    auto* entries = static_cast<fi_cq_msg_entry*>(buffer);
    size_t filled = 0;
    while (filled < count && !script.completed.empty()) {
        const auto [context, error] = script.completed.front();
        if (error) {
            if (filled) break;
            script.completed.pop_front();
            script.pending_error = error;
            script.error_context = context;
            return -FI_EAVAIL;
        }
        script.completed.pop_front();
        entries[filled++].op_context = context;
    }
    return filled ? static_cast<ssize_t>(filled) : -FI_EAGAIN;
}

ssize_t scripted_readerr(fid_cq*, fi_cq_err_entry* entry, std::uint64_t) {
    EXPECT_EQ(entry->err_data_size, 0u) << "not zeroed: the provider would write through a wild pointer";
    entry->op_context = script.error_context;
    entry->err = script.pending_error;
    return 1;
}

const char* scripted_strerror(fid_cq*, int, const void*, char*, size_t) {
    return "scripted";
}

struct NullSink final : ControlSink {
    void on_control(std::span<const std::byte>) noexcept override {}
};

ssize_t swallowed_send(fid_ep*, const void*, size_t, void*, fi_addr_t, void*) {
    return 0;  // posted, and never heard of again
}

/// A message without end. Its owner links it into a list of its own when it is done, as the engine does.
struct EndlessMessage : OutMessage {
    EndlessMessage() {
        fill = [](OutMessage&, std::span<std::byte>) noexcept { return std::size_t{1}; };
        advance = [](OutMessage&) noexcept { return true; };
        done = [](OutMessage& message, Status outcome) noexcept {
            auto& self = static_cast<EndlessMessage&>(message);
            ++self.ends;
            self.result = outcome;
            self.next = nullptr;
        };
    }
    int ends = 0;
    Status result = Status::ok;
};

class FabricRailTest : public testing::Test {
  protected:
    static constexpr std::uint64_t give_up_ns = 50'000'000;

    FabricRailTest() : rail_("rail", device(), sink_, {false, give_up_ns}) {
        script = {};
        fid_ep* endpoint = FabricRailProbe::endpoint(rail_);
        fid_cq* queue = FabricRailProbe::queue(rail_);
        real_rma_ = endpoint->rma;
        real_cq_ = queue->ops;
        rma_ = *endpoint->rma;
        rma_.writemsg = scripted_write;
        cq_ = *queue->ops;
        cq_.read = scripted_read;
        cq_.readerr = scripted_readerr;
        cq_.strerror = scripted_strerror;
        endpoint->rma = &rma_;
        queue->ops = &cq_;
    }
    ~FabricRailTest() override {
        FabricRailProbe::endpoint(rail_)->rma = real_rma_;
        FabricRailProbe::queue(rail_)->ops = real_cq_;
    }

    static std::shared_ptr<const fabric::Device> device() {
        auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }

    /// `count` chunks of 64 bytes towards `destination`, offered to the rail.
    struct Offer {
        Offer(FabricRail& rail, std::size_t count, PeerAddress destination, Path* gate = nullptr,
              std::uint32_t length = 64)
            : route{&rail, destination, gate, gate != nullptr, {nullptr}, {{}}} {
            work.chunks.assign(count, Chunk{0, 0, length, 0, 0});
            work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(count));
            submission.lane = &work.lanes.front();
            submission.route = &route;
            work.arm(1, nullptr);
            rail.submit(submission);
        }
        Work work;
        Route route;
        Submission submission;
    };

    void complete_all(int error = 0) {
        for (void* context : script.posted)
            script.completed.emplace_back(context, error);
        script.posted.clear();
    }

    NullSink sink_;
    FabricRail rail_;
    fi_ops_rma rma_{};
    fi_ops_cq cq_{};
    fi_ops_rma* real_rma_ = nullptr;
    fi_ops_cq* real_cq_ = nullptr;
};

TEST_F(FabricRailTest, ARunIsOneBatchWithItsDoorbellAtTheEnd) {
    Offer offer(rail_, 40, 1);
    ASSERT_EQ(script.flags.size(), 40u);
    for (std::size_t i = 0; i < 40; ++i) {
        const bool last_of_run = i == 15 || i == 31 || i == 39;
        EXPECT_EQ((script.flags[i] & FI_MORE) == 0, last_of_run) << i;
        EXPECT_NE(script.flags[i] & FI_DELIVERY_COMPLETE, 0u);
    }
    EXPECT_FALSE(offer.work.done());
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(FabricRailTest, EagainKeepsTheRunAndLosesNothing) {
    script.answers = {0, 0, -FI_EAGAIN};
    Offer offer(rail_, 10, 1);
    const std::size_t first = script.posted.size();
    EXPECT_EQ(first, 2u);
    script.answers = {-FI_EAGAIN};
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 2u);
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 10u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
}

TEST_F(FabricRailTest, APeerThatBlocksDoesNotHoldUpAnother) {
    script.answers = {-FI_EAGAIN};
    Offer blocked(rail_, 4, 1);
    EXPECT_TRUE(script.posted.empty());
    script.answers = {-FI_EAGAIN};
    Offer free(rail_, 4, 2);
    EXPECT_EQ(script.posted.size(), 4u);
    complete_all();
    script.answers = {-FI_EAGAIN};
    rail_.progress();
    EXPECT_TRUE(free.work.done());
    EXPECT_FALSE(blocked.work.done());
    rail_.progress();
    complete_all();
    rail_.progress();
    EXPECT_TRUE(blocked.work.done());
}

TEST_F(FabricRailTest, APeerThatTakesNothingIsGivenUpInTime) {
    script.answers.assign(1'000'000, -FI_EAGAIN);
    Offer offer(rail_, 100, 1);
    const auto start = std::chrono::steady_clock::now();
    while (!offer.work.done() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5))
        rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(give_up_ns));
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(FabricRailTest, TheQueueIsNeverOverrun) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer offer(rail_, 3 * depth, 1);
    EXPECT_EQ(script.posted.size(), depth);
    EXPECT_EQ(script.flags.back() & FI_MORE, 0u) << "a batch left open without a credit for its next";
    std::size_t total = depth;
    while (!offer.work.done() && total < 10 * depth) {
        complete_all();
        rail_.progress();
        EXPECT_LE(script.posted.size(), depth);
        total += script.posted.size();
    }
    EXPECT_TRUE(offer.work.done());
}

TEST_F(FabricRailTest, AnErrorEndsItsTransferAndStopsTheRest) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer failing(rail_, 2 * depth, 1);
    script.completed.emplace_back(script.posted.front(), FI_EIO);
    script.posted.erase(script.posted.begin());
    complete_all();
    rail_.progress();
    for (int i = 0; i < 100 && !failing.work.done(); ++i)
        rail_.progress();
    EXPECT_TRUE(failing.work.done());
    EXPECT_EQ(failing.work.status(), Status::backend);
    EXPECT_LE(script.flags.size(), depth + 64) << "posted on after the error";
    Offer next(rail_, 4, 1);
    complete_all();
    rail_.progress();
    EXPECT_EQ(next.work.status(), Status::ok);
}

TEST_F(FabricRailTest, AFailingPostFailsItsTransferOnly) {
    script.answers = {-FI_EINVAL};
    Offer bad(rail_, 3, 1);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(bad.work.done());
    EXPECT_EQ(bad.work.status(), Status::backend);
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(FabricRailTest, AnErrorWithoutContextIsSurvived) {
    script.completed.emplace_back(nullptr, FI_EIO);
    Offer offer(rail_, 1, 1);
    complete_all();
    rail_.progress();
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_TRUE(offer.work.done());
}

TEST_F(FabricRailTest, AStripedTransferDoesNotRunAheadOnOneRail) {
    Work work;
    work.chunks.assign(1000, Chunk{0, 0, 64, 0, 0});
    work.lanes.emplace_back(work, 0, 1000);
    work.lanes.front().striped = true;
    const Route route{&rail_, 1, nullptr, false, {nullptr}, {{}}};
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &route;
    work.arm(1, nullptr);
    rail_.submit(submission);
    EXPECT_EQ(script.posted.size(), FabricRail::striped_operations);
    for (int i = 0; i < 1000 && !work.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
}

TEST_F(FabricRailTest, ARailTakesItsShareOfALaneAndMoreOnlyForWhatHasEnded) {
    Offer none(rail_, 1, 1);  // keeps the rail busy with something else meanwhile
    Work work;
    work.chunks.assign(10, Chunk{0, 0, 64, 0, 0});
    Lane& lane = work.lanes.emplace_back(work, 0, 10);
    lane.striped = true;
    lane.share = 3;
    const Route route{&rail_, 2, nullptr, false, {nullptr}, {{}}};
    Submission submission;
    submission.lane = &lane;
    submission.route = &route;
    work.arm(1, nullptr);
    rail_.submit(submission);
    EXPECT_EQ(script.posted.size(), 1u + 3u);
    script.completed.emplace_back(script.posted.back(), 0);
    script.posted.pop_back();
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 1u + 3u);
    for (int i = 0; i < 20 && !work.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
}

TEST_F(FabricRailTest, TransfersTakeTurnsByBytesWhateverTheirChunks) {
    constexpr std::uint64_t mebi = 1 << 20;
    Offer large(rail_, 64, 1, nullptr, mebi);
    Offer small(rail_, 64 * 256, 2, nullptr, 4096);
    while (script.bytes[1] + script.bytes[2] < 100 * mebi) {
        ASSERT_FALSE(script.posted.empty());
        script.completed.emplace_back(script.posted.front(), 0);  // one at a time, the oldest first
        script.posted.erase(script.posted.begin());
        rail_.progress();
    }
    // The first had the rail to itself until the second came.
    const std::uint64_t ahead = FabricRail::most_bytes;
    EXPECT_LE(script.bytes[1], script.bytes[2] + ahead + 2 * mebi);
    EXPECT_GE(script.bytes[1] + 2 * mebi, script.bytes[2]);
    while (!large.work.done() || !small.work.done()) {
        complete_all();
        rail_.progress();
    }
}

TEST_F(FabricRailTest, NothingIsPostedBeforeTheGateOpens) {
    Path gate;
    Offer gated(rail_, 4, 1, &gate);
    Offer other(rail_, 2, 2);
    EXPECT_EQ(script.posted.size(), 2u);
    EXPECT_TRUE(rail_.has_work());
    gate.admit(rail_.sender_generation());
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 6u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(gated.work.done());
    EXPECT_EQ(gated.work.status(), Status::ok);
}

TEST_F(FabricRailTest, AGateThatNeverOpensEndsTheTransfer) {
    Path gate;
    Offer offer(rail_, 4, 1, &gate);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!offer.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    EXPECT_TRUE(script.posted.empty());
}

TEST(FabricRailTeardown, EveryMessageEndsOnceAsCanceled) {
    auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
    NullSink sink;
    std::array<EndlessMessage, 3> messages;  // the first fills the send buffers, the others wait behind it
    fi_ops_msg scripted{};
    {
        FabricRail rail("rail", std::make_shared<const fabric::Device>(std::move(devices.front())), sink, {});
        fid_ep* endpoint = FabricRailProbe::endpoint(rail);
        scripted = *endpoint->msg;
        scripted.send = swallowed_send;
        endpoint->msg = &scripted;
        for (EndlessMessage& message : messages)
            rail.send(message);
        EXPECT_EQ(messages[0].in_flight, ControlChannel::send_slots);
    }
    for (const EndlessMessage& message : messages) {
        EXPECT_EQ(message.ends, 1);
        EXPECT_EQ(message.result, Status::canceled);
    }
}

}  // namespace
}  // namespace railyard
