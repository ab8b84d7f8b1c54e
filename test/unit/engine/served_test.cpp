// What peers have asked for: when it is answered, and what becomes of what they withdraw.
#include "engine/served.h"

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/params.h"
#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace served_test {

constexpr std::uint64_t nonce = 99, now = 1'000'000'000, patience = ServedRequests::withdrawal_patience_ns;

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

class ServedRequestsTest : public testing::Test, protected ServedTransfers {
  protected:
    /// One of one part, which is under way.
    Transfer& serve(std::uint64_t id) {
        Transfer& transfer = transfers_.emplace_back();
        transfer.arm_instead();
        std::list<Served> one(1);
        one.front().peer = peer_;
        one.front().id = id;
        one.front().transfer = &transfer;
        last_ = &one.front();
        requests_.add(one, now);
        EXPECT_TRUE(one.empty());
        return transfer;
    }
    /// The ids of those that can be answered, which are taken out.
    std::vector<std::uint64_t> ended(std::uint64_t at = now) {
        look_ = requests_.look(*this, at);
        std::vector<std::uint64_t> ids;
        for (const Served& served : look_.ended)
            ids.push_back(served.id);
        return ids;
    }
    using Ids = std::vector<std::uint64_t>;

    void interrupt_transfer(Transfer& transfer) noexcept override { interrupted_.push_back(&transfer); }
    void introduce_again(const std::shared_ptr<Peer>&) noexcept override { ++introductions_; }

    NullSink sink_;
    std::shared_ptr<RailManager> rails_ =
        std::make_shared<RailManager>(Params::parse({{"provider", "tcp"}, {"devices", "lo"}}), false, sink_);
    std::shared_ptr<Peer> peer_ =
        std::make_shared<Peer>(ConnectionInfo{"beta", nonce, rails_->provider(), rails_->addresses()}, rails_,
                               std::make_shared<MessageIds>());
    std::deque<Transfer> transfers_;
    ServedRequests requests_;
    ServedRequests::Look look_;
    Served* last_ = nullptr;
    std::vector<Transfer*> interrupted_;
    int introductions_ = 0;
};

TEST_F(ServedRequestsTest, WhatHasEndedIsAnsweredOnce) {
    EXPECT_TRUE(requests_.none());
    Transfer& first = serve(1);
    Transfer& second = serve(2);
    EXPECT_FALSE(requests_.none());
    EXPECT_EQ(ended(), Ids{});
    EXPECT_TRUE(look_.under_way);
    second.part_done(Status::ok);
    EXPECT_EQ(ended(), Ids{2});
    EXPECT_TRUE(look_.under_way);
    first.part_done(Status::backend);
    EXPECT_EQ(ended(), Ids{1});
    EXPECT_FALSE(look_.under_way);
    EXPECT_TRUE(requests_.none());
    EXPECT_EQ(ended(), Ids{});
}

/// The asker takes an answer for the word that its memory is its own again.
TEST_F(ServedRequestsTest, NoAnswerWhileAnythingMayStillLand) {
    Transfer& transfer = serve(1);
    Served& served = *last_;
    served.late.store(2);
    transfer.part_done(Status::canceled);
    EXPECT_EQ(ended(), Ids{});
    EXPECT_TRUE(look_.withheld);
    EXPECT_FALSE(look_.under_way) << "nobody needs to look all the time for that";
    served.late.store(1);
    EXPECT_EQ(ended(), Ids{});
    EXPECT_FALSE(requests_.none());
    served.late.store(0);
    EXPECT_EQ(ended(), Ids{1});
    EXPECT_FALSE(look_.withheld);
}

TEST_F(ServedRequestsTest, WhatCouldNotBeAnsweredIsLookedAtAgain) {
    serve(1).part_done(Status::ok);
    ASSERT_EQ(ended(), Ids{1});
    look_.ended.front().transfer = nullptr;  // as whoever answers leaves it
    requests_.put_back(look_.ended);
    EXPECT_FALSE(requests_.none());
    EXPECT_EQ(ended(), Ids{1});
}

TEST_F(ServedRequestsTest, AWithdrawnOneIsStoppedAtOnceAndInterruptedLater) {
    Transfer& transfer = serve(1);
    Transfer& other = serve(2);
    requests_.withdraw(nonce, {1}, now);
    EXPECT_EQ(transfer.status(), Status::canceled);
    EXPECT_EQ(other.status(), Status::ok);
    EXPECT_EQ(ended(now + patience - 1), Ids{});
    EXPECT_TRUE(interrupted_.empty());
    EXPECT_EQ(ended(now + patience), Ids{});
    EXPECT_EQ(interrupted_, std::vector<Transfer*>{&transfer});
    EXPECT_EQ(ended(now + 2 * patience), Ids{});
    EXPECT_EQ(interrupted_.size(), 1u) << "once";
    transfer.part_done(Status::ok);
    EXPECT_EQ(ended(), Ids{1});
    EXPECT_FALSE(requests_.was_withdrawn(nonce, 1)) << "it had come";
}

TEST_F(ServedRequestsTest, OneThatWasWithdrawnBeforeItCameIsKnownUntilItIsAnswered) {
    requests_.withdraw(nonce, {7, 8}, now);
    EXPECT_TRUE(requests_.was_withdrawn(nonce, 7));
    EXPECT_FALSE(requests_.was_withdrawn(nonce + 1, 7)) << "another instance's";
    EXPECT_FALSE(requests_.was_withdrawn(nonce, 9));
    requests_.forget_withdrawal(nonce, 7);
    EXPECT_FALSE(requests_.was_withdrawn(nonce, 7));
    EXPECT_TRUE(requests_.was_withdrawn(nonce, 8));
}

/// Whoever serves has looked, and another thread reads the withdrawal before the request is in the list.
TEST_F(ServedRequestsTest, OneThatIsWithdrawnWhileItIsBegunIsStopped) {
    requests_.withdraw(nonce, {5}, now);
    EXPECT_EQ(serve(5).status(), Status::canceled);
    EXPECT_EQ(ended(now + patience), Ids{});
    EXPECT_EQ(interrupted_.size(), 1u);
}

TEST_F(ServedRequestsTest, TheOldestWithdrawalsAreForgottenFirst) {
    constexpr std::uint64_t most = ServedRequests::most_early_withdrawals;
    for (std::uint64_t id = 0; id <= most; ++id)
        requests_.withdraw(nonce, {id}, now);
    EXPECT_FALSE(requests_.was_withdrawn(nonce, 0));
    EXPECT_TRUE(requests_.was_withdrawn(nonce, 1));
    EXPECT_TRUE(requests_.was_withdrawn(nonce, most));
}

}  // namespace served_test
}  // namespace railyard
