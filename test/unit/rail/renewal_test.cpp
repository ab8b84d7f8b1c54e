// Senders that are replaced: while there is no memory for it, and where nothing would ever end.
#include "failing_new.h"
#include "scripted_control.h"
#include "scripted_rail.h"
#include "taking_rail.h"

namespace railyard {
namespace {

using scripted_control::Message;

/// Whose messages are taken by a script, too.
class ScriptedMessages : public FabricRailTest {
  protected:
    explicit ScriptedMessages(bool separate_sender = true) : FabricRailTest(1, separate_sender) {
        scripted_control::script = {};
    }
    /// Sends it from the endpoint that there is now. Returns its context.
    void* take(Message& message) {
        fid_ep* const endpoint = FabricRailProbe::endpoint(rail_);
        if (endpoint->msg != &messages_) {
            messages_ = *endpoint->msg;
            messages_.sendmsg = scripted_control::scripted_sendmsg;
            endpoint->msg = &messages_;
        }
        scripted_control::script.sent.clear();
        rail_.send(message);
        EXPECT_EQ(scripted_control::script.sent.size(), 1u);
        return scripted_control::script.sent.empty() ? nullptr : scripted_control::script.sent[0].context;
    }

  private:
    static inline fi_ops_msg messages_{};
};

/// As over shm and cxi: what operations leave from cannot be replaced.
class OneEndpoint : public ScriptedMessages {
  protected:
    OneEndpoint() : ScriptedMessages(false) {}
};

TEST_F(FabricRailTest, ARenewalThatFindsNoMemoryIsMadeUpFor) {
    one_failed = true;
    for (long left = 0; one_failed; ++left) {
        ASSERT_LT(left, 1000);
        const std::uint32_t before = rail_.sender_generation();
        one_failed = false;
        ASSERT_TRUE(rail_.request_renewal());
        allocations_left = left;
        rail_.progress();
        allocations_left = -1;
        EXPECT_TRUE(one_failed || left > 1) << "nothing was tested";
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        const auto is_told = [&] {
            return rail_.sender_generation() != before && !rail_.sender().address.empty();
        };
        while (!is_told() && std::chrono::steady_clock::now() < limit)
            rail_.progress();
        EXPECT_TRUE(is_told()) << "after " << left << " allocations";
    }
}

/// What is unread when an endpoint is closed, which flushes an operation of its own.
struct Closing {
    fi_ops* real = nullptr;
    std::vector<std::size_t> unread;
};
Closing closing;

int scripted_close(fid* endpoint) {
    closing.unread.push_back(script.completed.size());
    script.completed.emplace_back(nullptr, FI_ECANCELED);
    return closing.real->close(endpoint);
}

/// fi_cq_read ends in front of an error, with what it has so far; efa of libfabric 2.4 and 2.5 does not
/// survive that an endpoint is closed then.
class UnreadErrors : public FabricRailTest {
  protected:
    UnreadErrors() { closing = {}; }
    void watch_closing(fid& endpoint) {
        closing.real = endpoint.ops;
        ops_ = *endpoint.ops;
        ops_.close = scripted_close;
        endpoint.ops = &ops_;
    }
    /// Of five contexts.
    static void complete_in_turns(const std::vector<void*>& contexts) {
        for (std::size_t i = 0; i < contexts.size(); ++i)
            script.completed.emplace_back(contexts[i], i % 2 ? FI_EIO : 0);
    }

  private:
    static inline fi_ops ops_{};
};

TEST_F(UnreadErrors, AreReadBeforeASenderIsReplacedAndAfterwards) {
    Offer offer(rail_, 5, 1);
    complete_in_turns(script.posted);
    watch_closing(FabricRailProbe::endpoint(rail_)->fid);
    const std::uint32_t before = rail_.sender_generation();
    rail_.request_renewal();
    rail_.progress();
    EXPECT_NE(rail_.sender_generation(), before);
    EXPECT_EQ(closing.unread, (std::vector<std::size_t>{0}));
    EXPECT_TRUE(script.completed.empty());
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::backend);
}

TEST_F(UnreadErrors, AreReadBeforeEndpointsGo) {
    auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
    devices.front().caps.reads_before_close = true;
    {
        FabricRail rail("rail", std::make_shared<const fabric::Device>(std::move(devices.front())), sink_,
                        {});
        FabricRailProbe::queue(rail)->ops = &cq_;
        complete_in_turns(std::vector<void*>(5));
        watch_closing(FabricRailProbe::endpoint(rail)->fid);
        watch_closing(*FabricRailProbe::receiver(rail));
    }
    EXPECT_EQ(closing.unread, (std::vector<std::size_t>{0, 0}));
}

/// Of a renewal that is put off for want of memory nothing has been begun: what fails then has not been
/// interrupted.
TEST_F(ScriptedMessages, EndWhereTheyFailWhileARenewalWaitsForMemory) {
    long tested = 0;
    bool all = false;
    for (long left = 0; !all; ++left) {
        ASSERT_LT(left, 100);
        Work owner;  // ends what a renewal has interrupted, instead of sending it again
        Message message("message", 1);
        message.owner = &owner;
        void* const context = take(message);
        const fid_ep* const endpoint = FabricRailProbe::endpoint(rail_);
        const std::uint32_t before = rail_.sender_generation();
        owner.stop(Status::canceled);
        one_failed = false;
        ASSERT_TRUE(rail_.request_renewal());
        allocations_left = left;
        rail_.progress();
        allocations_left = -1;
        all = !one_failed;
        if (rail_.sender_generation() == before) {
            ++tested;
            ASSERT_EQ(FabricRailProbe::endpoint(rail_), endpoint);
            script.completed.emplace_back(context, FI_EIO);
            rail_.progress();
            EXPECT_EQ(message.ends, 1) << "after " << left << " allocations";
        }
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while ((rail_.sender_generation() == before || !FabricRailProbe::endpoint(rail_) || !message.ends) &&
               std::chrono::steady_clock::now() < limit)
            rail_.progress();
        ASSERT_NE(rail_.sender_generation(), before);
        ASSERT_EQ(message.ends, 1);
    }
    EXPECT_GE(tested, 6) << "what it needs before it begins";
}

/// A completion queue that was overrun never tells of anything again.
TEST_F(FabricRailTest, WhatIsUnderWayWhenTheCompletionQueueBreaksGoesOverAnotherRail) {
    TakingRail other;
    Detour detour(rail_, other, 1);
    const Work& work = detour.work;
    detour.post();
    EXPECT_EQ(script.posted.size(), 20u);
    script.queue_answer = -FI_EOVERRUN;
    rail_.progress();
    rail_.progress();
    EXPECT_TRUE(work.done()) << "in two passes: one hears of it";
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_EQ(other.taken.size(), 20u);
    EXPECT_TRUE(detour.usual.failed());
    EXPECT_FALSE(rail_.has_work());

    detour.post();
    rail_.request_renewal();
    rail_.progress();
    EXPECT_EQ(work.status(), Status::ok) << "and what is posted afterwards";
    EXPECT_EQ(other.taken.size(), 40u);
    EXPECT_FALSE(rail_.has_work()) << "nothing is tried for ever";
}

TEST_F(OneEndpoint, WhatIsUnderWayWhenItsCompletionQueueBreaksGoesOverAnotherRail) {
    TakingRail other;
    Detour detour(rail_, other, 1);
    const Work& work = detour.work;
    detour.post();
    EXPECT_EQ(script.posted.size(), 20u);
    Message message("message", 1);
    take(message);
    script.queue_answer = -FI_EOVERRUN;
    for (int pass = 0; pass < 3; ++pass)
        rail_.progress();
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_EQ(other.taken.size(), 20u);
    EXPECT_TRUE(detour.usual.failed());
    EXPECT_EQ(message.ends, 1);
    EXPECT_EQ(message.result, Status::remote_disconnect) << "so that it goes another way";
    EXPECT_FALSE(rail_.has_work());

    detour.post();
    Message later("later", 1);
    rail_.send(later);
    rail_.request_renewal();
    rail_.progress();
    EXPECT_EQ(work.status(), Status::ok) << "and what is posted afterwards";
    EXPECT_EQ(other.taken.size(), 40u);
    EXPECT_EQ(script.posted.size(), 20u) << "nothing of it here";
    EXPECT_EQ(later.result, Status::remote_disconnect);
    EXPECT_FALSE(rail_.has_work()) << "nothing is tried for ever";
}

TEST_F(OneEndpoint, IsGivenUpOnceThereIsMemoryForIt) {
    TakingRail other;
    Detour detour(rail_, other, 1);
    detour.post();
    script.queue_answer = -FI_EOVERRUN;
    allocations_left = 0;
    rail_.progress();
    rail_.progress();
    allocations_left = -1;
    EXPECT_TRUE(one_failed);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!detour.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_EQ(detour.work.status(), Status::ok);
    EXPECT_EQ(other.taken.size(), 20u);
    EXPECT_FALSE(rail_.has_work());
}

/// As over cxi: memory registrations hang on the one endpoint, and nothing on it waits for anybody else's
/// answer.
class BoundEndpoint : public FabricRailTest {
  protected:
    BoundEndpoint() : FabricRailTest(bound_device()) {}

  private:
    static std::shared_ptr<const fabric::Device> bound_device() {
        auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
        fabric::ProviderCaps& caps = devices.front().caps;
        caps.rma_pieces = 1;
        caps.separate_sender = caps.answers_at_sender = caps.shares_endpoints = false;
        caps.endpoint_registration = true;
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }
};

TEST_F(BoundEndpoint, GoesOnWithWhatIsUnderWayWhenAPeerIsAbandoned) {
    const Offer to_dead(rail_, 1, 1), to_other(rail_, 1, 2);
    ASSERT_EQ(script.posted.size(), 2u);
    const fid_ep* const endpoint = FabricRailProbe::endpoint(rail_);
    rail_.abandon_peer(1);
    ASSERT_EQ(FabricRailProbe::endpoint(rail_), endpoint) << "the device still works on what left from it";
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 2u) << "nothing may be posted again";
    script.completed = {{script.posted[0], FI_EHOSTUNREACH}, {script.posted[1], 0}};
    rail_.progress();
    EXPECT_TRUE(to_other.work.done());
    EXPECT_EQ(to_other.work.status(), Status::ok);
    EXPECT_TRUE(to_dead.work.done());
    EXPECT_EQ(to_dead.work.status(), Status::remote_disconnect) << "it ends when the provider says so";
}

}  // namespace
}  // namespace railyard
