#include "rail/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

namespace railyard {
namespace {

TEST(PeerSet, KnowsItsPeersAndWhenItIsFull) {
    PeerSet blocked;
    for (int pass = 0; pass < 3; ++pass) {
        for (PeerAddress peer = 0; peer < PeerSet::most; ++peer) {
            EXPECT_FALSE(blocked.full());
            EXPECT_FALSE(blocked.contains(peer * 128 + 1));
            blocked.insert(peer * 128 + 1);
            blocked.insert(1);  // once
        }
        EXPECT_TRUE(blocked.full());
        for (PeerAddress peer = 0; peer < PeerSet::most; ++peer)
            EXPECT_TRUE(blocked.contains(peer * 128 + 1));
        EXPECT_FALSE(blocked.contains(2));
        blocked.insert(2);  // full, so it is left out
        EXPECT_FALSE(blocked.contains(2));
        blocked.clear();
        EXPECT_FALSE(blocked.contains(1));
    }
}

/// Passes over messages, as a rail makes them.
struct Rounds {
    PendingList<OutMessage> pending;
    Sweep<OutMessage> sweep;
    BlockedSet blocked;
    std::set<PeerAddress> silent;
    std::deque<OutMessage> all;
    std::deque<OutMessage*> sent;
    std::size_t room = SIZE_MAX;  // of one pass
    std::size_t refusals = 0, most_refusals = 0;

    OutMessage& queue(PeerAddress peer) {
        OutMessage& message = all.emplace_back();
        message.destination = peer;
        pending.push_back(message);
        return message;
    }
    void pass() {
        blocked.begin_pass();
        PendingList<OutMessage> kept;
        refusals = 0;
        for (std::size_t left = room; !pending.empty() && left > 0 && !blocked.full();) {
            OutMessage& message = *pending.pop_front();
            if (blocked.contains(message.destination)) {
                kept.push_back(message);
            } else if (silent.count(message.destination)) {
                ++refusals;
                blocked.insert(message.destination);
                kept.push_back(message);
            } else {
                --left;
                sent.push_back(&message);
            }
        }
        most_refusals = std::max(most_refusals, refusals);
        sweep.end_pass(pending, kept, blocked);
    }
};

TEST(Sweep, GetsRoundAnyNumberOfPeersInAFewPassesEach) {
    for (PeerAddress silent : {PeerAddress{95}, PeerAddress{96}, PeerAddress{97}, PeerAddress{1000}}) {
        Rounds rounds;
        for (PeerAddress peer = 1; peer <= silent; ++peer) {
            rounds.silent.insert(peer);
            rounds.queue(peer);
        }
        for (PeerAddress free = silent + 1; free <= silent + 20; ++free) {
            OutMessage& message = rounds.queue(free);
            std::size_t passes = 0;
            for (; rounds.sent.empty() || rounds.sent.back() != &message; ++passes) {
                ASSERT_LE(passes, 3 * (silent / BlockedSet::most + 1)) << "behind " << silent << " peers";
                rounds.pass();
            }
            EXPECT_LE(rounds.most_refusals, BlockedSet::most);
        }
        rounds.silent.clear();
        for (std::size_t passes = 0; rounds.sent.size() < rounds.all.size(); ++passes) {
            ASSERT_LE(passes, silent / BlockedSet::most + 1) << "once they take something";
            rounds.pass();
        }
        EXPECT_TRUE(rounds.pending.empty());
    }
}

TEST(Sweep, KeepsTheOrderOfWhatGoesToOnePeer) {
    constexpr PeerAddress peers = 300;
    for (const std::size_t room : {std::size_t{5}, SIZE_MAX}) {
        Rounds rounds;
        rounds.room = room;
        for (PeerAddress peer = 1; peer <= peers; ++peer)
            rounds.silent.insert(peer);
        for (int i = 0; i < 3; ++i) {
            for (PeerAddress peer = 1; peer <= peers; ++peer) {
                rounds.queue(i == 1 ? peers + 1 - peer : peer);
                if (peer % 50 == 0) rounds.pass();
            }
        }
        for (PeerAddress step = 1; step <= peers; ++step) {
            rounds.silent.erase(step * 11 % (peers + 1));  // one after the other, wherever the sweep is
            rounds.pass();
        }
        for (std::size_t passes = 0; !rounds.pending.empty(); ++passes) {
            ASSERT_LE(passes, 1000u);
            rounds.pass();
        }
        ASSERT_EQ(rounds.sent.size(), rounds.all.size());
        std::map<PeerAddress, const OutMessage*> last;
        std::map<const OutMessage*, std::size_t> queued;
        for (const OutMessage& message : rounds.all)
            queued.emplace(&message, queued.size());
        for (const OutMessage* message : rounds.sent) {
            const OutMessage*& before = last[message->destination];
            EXPECT_TRUE(!before || queued[before] < queued[message]) << "peer " << message->destination;
            before = message;
        }
    }
}

}  // namespace
}  // namespace railyard
