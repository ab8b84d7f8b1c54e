// Requests to peers that move their memory themselves: how long an answer is waited for.
#include "engine/forward_rail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <deque>
#include <new>
#include <string>
#include <thread>

#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "log_lines.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace forward_rail_test {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

/// A rail towards a peer that answers what the test says.
class ForwardRailTest : public testing::Test, protected RequestSender, protected Introducer {
  protected:
    static constexpr std::uint64_t nonce = 99;
    static constexpr milliseconds patience{800};

    struct Asked : Work {
        Asked(ForwardRail& rail, const std::shared_ptr<Peer>& peer) {
            chunks.push_back({0x1000, 0x2000, 64, 0, 0});
            lanes.emplace_back(*this, 0, 1);
            forwarding.peer = peer;
            forwarding.transfer = this;
            forwarding.locals = {std::make_shared<Registration>()};
            forwarding.remotes = {std::make_shared<RemoteRegion>()};
            route.rail = &rail;
            route.path = &peer->resolve(control_pair).path;
            route.forwarding = &forwarding;
            submission.lane = &lanes.front();
            submission.route = &route;
            arm(1, nullptr);
        }
        Forwarding forwarding;
        Route route;
        Submission submission;
        std::uint64_t id = 0;
    };

    Asked& ask() {
        Asked& asked = all_.emplace_back(rail_, peer_);
        rail_.submit(asked.submission);
        rail_.progress();
        asked.id = last_id_;
        return asked;
    }
    void answer(const Asked& asked) {
        rail_.answered(nonce, {asked.id, Status::ok});
        rail_.progress();
    }
    void pause(milliseconds time) {
        std::this_thread::sleep_for(time);
        rail_.progress();
    }

    void send_request(const std::shared_ptr<Peer>&, const Request& request) override {
        if (request.kind == RequestKind::withdraw && failing_ > 0) {
            --failing_;
            throw std::bad_alloc();
        }
        last_id_ = request.id;
        sent_.push_back(request);
    }
    void introduce_soon() noexcept override {}

    NullSink sink_;
    std::shared_ptr<RailManager> rails_ =
        std::make_shared<RailManager>(Params::parse({{"provider", "tcp"}, {"devices", "lo"}}), false, sink_);
    std::shared_ptr<Peer> make_peer(const std::string& agent, std::uint64_t instance) {
        return std::make_shared<Peer>(
            ConnectionInfo{agent, instance, rails_->provider(), rails_->addresses()}, rails_,
            std::make_shared<MessageIds>());
    }
    std::shared_ptr<Peer> peer_ = make_peer("beta", nonce);
    ForwardRail rail_{*this, *this, std::chrono::nanoseconds(patience).count()};
    std::uint64_t last_id_ = 0;
    std::vector<Request> sent_;
    int failing_ = 0;  ///< withdrawals
    std::deque<Asked> all_;
};

/// Else the peer would go on with what nobody waits for.
TEST_F(ForwardRailTest, AWithdrawalThatThereIsNoMemoryForIsSentLater) {
    const test::LogLines lines;
    Asked& stopped = ask();
    Asked& other = ask();
    const std::uint64_t first = stopped.id;
    sent_.clear();
    failing_ = 3;
    stopped.stop(Status::canceled);
    for (int pass = 0; pass < 3; ++pass)
        rail_.progress();
    EXPECT_TRUE(sent_.empty());
    EXPECT_FALSE(stopped.done());
    rail_.progress();
    rail_.progress();
    ASSERT_EQ(sent_.size(), 1u);
    EXPECT_EQ(sent_[0].kind, RequestKind::withdraw);
    EXPECT_EQ(sent_[0].tokens, (std::vector<std::uint64_t>{first}));
    EXPECT_EQ(lines.count("cannot be withdrawn yet"), 1);
    rail_.answered(nonce, {first, Status::canceled});
    rail_.progress();
    EXPECT_TRUE(stopped.done());
    answer(other);
    EXPECT_EQ(other.status(), Status::ok);
}

TEST_F(ForwardRailTest, WhereNoneCanBeSentItEndsAllTheSame) {
    Asked& stopped = ask();
    failing_ = INT_MAX;
    stopped.stop(Status::canceled);
    const auto begin = Clock::now();
    while (!stopped.done() && Clock::now() - begin < std::chrono::seconds(10))
        pause(milliseconds(5));
    EXPECT_TRUE(stopped.done());
    EXPECT_GE(Clock::now() - begin, std::chrono::nanoseconds(ForwardRail::word_limit_ns));
}

TEST_F(ForwardRailTest, ThoseThatDoNotAnswerLeaveRoomForOthers) {
    constexpr auto most_silent = ForwardRail::most_requests / ForwardRail::most_requests_of_a_peer;
    for (std::uint64_t i = 0; i < most_silent; ++i) {
        const auto silent = make_peer("silent" + std::to_string(i), 1000 + i);
        for (std::ptrdiff_t request = 0; request < ForwardRail::most_requests_of_a_peer; ++request)
            rail_.submit(all_.emplace_back(rail_, silent).submission);
    }
    rail_.progress();
    const std::size_t silent = all_.size();
    EXPECT_GT(sent_.size(), silent / 2);
    for (int i = 0; i < 10; ++i) {
        sent_.clear();
        Asked& asked = ask();
        ASSERT_EQ(sent_.size(), 1u) << "it waits for those";
        answer(asked);
        EXPECT_EQ(asked.status(), Status::ok);
    }
    for (Asked& asked : all_) {
        if (!asked.done()) asked.stop(Status::canceled);
    }
    const auto begin = Clock::now();
    const auto ended = [](const Asked& asked) { return asked.done(); };
    while (!std::all_of(all_.begin(), all_.end(), ended) && Clock::now() - begin < 20 * patience)
        pause(milliseconds(5));
    EXPECT_TRUE(std::all_of(all_.begin(), all_.end(), ended));
}

/// However much is asked and answered later.
TEST_F(ForwardRailTest, OneWhoseAnswerIsLostEnds) {
    const test::LogLines lines;
    const Asked& lost = ask();
    const auto begin = Clock::now();
    while (!lost.done() && Clock::now() - begin < 10 * patience) {
        const Asked& other = ask();
        pause(patience / 20);
        answer(other);
        ASSERT_EQ(other.status(), Status::ok);
    }
    ASSERT_TRUE(lost.done());
    EXPECT_EQ(lost.status(), Status::remote_disconnect);
    EXPECT_GE(Clock::now() - begin, patience);
    EXPECT_EQ(lines.count("a transfer was given up"), 1);
}

/// Whoever calls in after long has not read it yet.
TEST_F(ForwardRailTest, AnAnswerThatLiesUnreadIsTaken) {
    const Asked& asked = ask();
    pause(patience + patience / 10);
    ASSERT_FALSE(asked.done());
    answer(asked);
    EXPECT_EQ(asked.status(), Status::ok);
}

/// Also by somebody who asks for more meanwhile, which reads nothing.
TEST_F(ForwardRailTest, AskingForMoreIsNotLooking) {
    const Asked& asked = ask();
    std::this_thread::sleep_for(patience * 9 / 10);
    Asked& more = all_.emplace_back(rail_, peer_);
    rail_.submit(more.submission);
    more.id = last_id_;
    pause(patience / 5);
    ASSERT_FALSE(asked.done());
    answer(asked);
    EXPECT_EQ(asked.status(), Status::ok);
    answer(more);
}

/// Nobody is waited for without an end by who looks now and then only.
TEST_F(ForwardRailTest, OneWhoseAnswerIsLostEndsHoweverSeldomSomebodyLooks) {
    const test::LogLines lines;
    const Asked& lost = ask();
    for (int i = 0; i < 4; ++i)
        pause(patience / 2);
    EXPECT_TRUE(lost.done());
    EXPECT_EQ(lost.status(), Status::remote_disconnect);
}

/// What the peer was told of is kept until it answers, or until it is kept from it.
TEST_F(ForwardRailTest, WhatNobodyAnswersIsForgottenWithTheKeysThatWereTold) {
    const test::LogLines lines;
    StagingPath staging("staging");
    std::atomic<std::uint32_t> late{0};
    const auto former = std::make_shared<Registration>(), present = std::make_shared<Registration>();
    for (const auto& [lent, key] : {std::pair{former, 1U}, std::pair{present, 2U}}) {
        lent->rails = {0};
        lent->memory.resize(1);
        lent->memory.front().key = key;
    }
    const auto ask_with_slot = [&]() -> Asked& {
        Asked& asked = all_.emplace_back(rail_, peer_);
        asked.forwarding.locals.clear();
        asked.forwarding.lender = &staging;
        asked.submission.late = &late;
        rail_.submit(asked.submission);
        asked.id = last_id_;
        return asked;
    };
    staging.lend(former);
    const Asked &lost = ask_with_slot(), &second = ask_with_slot();
    EXPECT_EQ(sent_.back().memories.front().keys.front().key, 1U);
    EXPECT_TRUE(rail_.awaits_answers(*former));
    for (int i = 0; i < 6; ++i)
        pause(patience / 3);
    ASSERT_TRUE(lost.done() && second.done());
    EXPECT_FALSE(rail_.awaits_answers(*former));
    EXPECT_EQ(late, 2U);
    ASSERT_TRUE(rail_.has_unheard());
    EXPECT_TRUE(rail_.unheard_loans(0).empty());
    const auto loans = rail_.unheard_loans(UINT64_MAX);
    ASSERT_EQ(loans.size(), 1U);
    EXPECT_EQ(loans.front().lender, &staging);
    EXPECT_EQ(loans.front().lent, former);
    EXPECT_EQ(rail_.unheard_addresses(*former).front(), rails_->addresses().front());
    answer(second);
    EXPECT_EQ(late, 1U);

    staging.lend(present);
    const Asked& later = ask_with_slot();
    EXPECT_EQ(sent_.back().memories.front().keys.front().key, 2U);
    EXPECT_FALSE(rail_.awaits_answers(*former));
    EXPECT_EQ(rail_.forget(*present), 0U);
    EXPECT_EQ(rail_.forget(*former), 1U);
    EXPECT_EQ(late, 0U);
    EXPECT_FALSE(rail_.has_unheard());
    answer(lost);
    EXPECT_EQ(late, 0U) << "an answer that comes after that";
    answer(later);
    EXPECT_EQ(later.status(), Status::ok);
}

/// It takes its time for each, and for all of them more than one is waited for.
TEST_F(ForwardRailTest, APeerWithMuchToDoIsWaitedFor) {
    std::vector<Asked*> queue;
    for (int i = 0; i < 4; ++i)
        queue.push_back(&ask());
    for (Asked* first : queue) {
        for (Asked* waiting : queue)
            ASSERT_EQ(waiting->done(), waiting->id < first->id);
        pause(patience / 2);
        answer(*first);
        EXPECT_EQ(first->status(), Status::ok);
    }
}

/// Small ones are through sooner.
TEST_F(ForwardRailTest, WhatIsAskedLaterMayBeAnsweredFirst) {
    const Asked& large = ask();
    const Asked& small = ask();
    pause(patience / 2);
    const Asked& later = ask();
    answer(small);
    pause(patience / 2);
    answer(later);
    pause(patience / 2);
    ASSERT_FALSE(large.done());
    answer(large);
    EXPECT_EQ(large.status(), Status::ok);
}

/// Of a request that was given up: the peer is that far behind, and gets to the others.
TEST_F(ForwardRailTest, AnAnswerThatComesTooLateSaysThatThePeerGoesOn) {
    const test::LogLines lines;
    const Asked *first = nullptr, *second = nullptr;
    for (int tries = 0; tries < 3 && (!second || second->done()); ++tries) {  // both end where we are held up
        first = &ask();
        pause(patience / 2);
        second = &ask();
        while (!first->done())
            pause(milliseconds(1));
        EXPECT_EQ(first->status(), Status::remote_disconnect);
    }
    ASSERT_FALSE(second->done());
    answer(*first);
    // It is looked at often, so that nobody is waited for because nobody has looked.
    for (const auto end = Clock::now() + patience * 3 / 4; Clock::now() < end;)
        pause(patience / 40);
    EXPECT_FALSE(second->done());
    answer(*second);
    EXPECT_EQ(second->status(), Status::ok);
}

/// Whoever sends them, and however many.
TEST_F(ForwardRailTest, AnswersThatNobodyAskedForTakeNobodysPlace) {
    const Asked& asked = ask();
    for (std::uint64_t id = 0; id < 3 * ForwardRail::most_requests; ++id) {
        rail_.answered(nonce + 1, {id, Status::ok});
        if (id != asked.id) rail_.answered(nonce, {id, Status::ok});
    }
    answer(asked);
    ASSERT_TRUE(asked.done());
    EXPECT_EQ(asked.status(), Status::ok);
}

TEST_F(ForwardRailTest, AnAnswerThatComesTwiceEndsOneRequest) {
    const Asked& first = ask();
    const Asked& second = ask();
    rail_.answered(nonce, {first.id, Status::ok});
    rail_.answered(nonce, {first.id, Status::backend});
    rail_.progress();
    EXPECT_EQ(first.status(), Status::ok);
    EXPECT_FALSE(second.done());
    answer(second);
    EXPECT_TRUE(second.done());
}

TEST_F(ForwardRailTest, AFlushNamesNoMoreRegionsThanARequestMay) {
    constexpr std::uint32_t regions = 2 * max_request_pieces + 1;
    Asked& asked = all_.emplace_back(rail_, peer_);
    asked.forwarding.flush = true;
    asked.forwarding.remotes.clear();
    asked.chunks.assign(regions, {});
    for (std::uint32_t i = 0; i < regions; ++i) {
        asked.forwarding.remotes.push_back(std::make_shared<RemoteRegion>());
        asked.forwarding.remotes.back()->token = i;
        asked.chunks[i].remote_region = i;
    }
    asked.lanes.clear();
    asked.lanes.emplace_back(asked, 0, regions);
    asked.submission.lane = &asked.lanes.front();
    asked.arm(1, nullptr);
    rail_.submit(asked.submission);
    rail_.progress();
    std::vector<std::uint64_t> named;
    ASSERT_EQ(sent_.size(), 3u);
    for (const Request& request : sent_) {
        EXPECT_EQ(decode_request(encode(request)).tokens, request.tokens);
        named.insert(named.end(), request.tokens.begin(), request.tokens.end());
        rail_.answered(nonce, {request.id, Status::ok});
    }
    rail_.progress();
    EXPECT_TRUE(asked.done());
    ASSERT_EQ(named.size(), regions);
    for (std::uint32_t i = 0; i < regions; ++i)
        EXPECT_EQ(named[i], i);
}

}  // namespace forward_rail_test
}  // namespace railyard
