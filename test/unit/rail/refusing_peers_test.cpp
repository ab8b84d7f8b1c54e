// Peers that do not take what is posted to them, or not yet.
#include "least_of.h"
#include "scripted_rail.h"
#include "taking_rail.h"

namespace railyard {
namespace {

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
    script.answers.clear();
    EXPECT_TRUE(ends(blocked));
}

TEST_F(FabricRailTest, ManyPeersThatBlockDoNotHoldUpAnother) {
    std::deque<Offer> blocked;
    for (PeerAddress peer = 1; peer <= 40; ++peer) {
        script.silent.insert(peer);
        blocked.emplace_back(rail_, 4, peer);
    }
    Offer free(rail_, 4, 41);
    EXPECT_EQ(script.posted.size(), 4u);
    script.silent.clear();
    EXPECT_TRUE(std::all_of(blocked.begin(), blocked.end(), [this](Offer& offer) { return ends(offer); }));
}

TEST_F(FabricRailTest, HundredsOfPeersThatBlockDoNotHoldUpAnother) {
    constexpr PeerAddress peers = 200;
    std::deque<Offer> blocked;
    for (PeerAddress peer = 1; peer <= peers; ++peer) {
        script.silent.insert(peer);
        blocked.emplace_back(rail_, 4, peer);
    }
    Offer free(rail_, 4, peers + 1);
    const std::size_t passes = 2 * (peers / BlockedSet::most + 1);  // one may be over half of them
    for (std::size_t pass = 0; pass < passes && script.posted.empty(); ++pass)
        rail_.progress();
    EXPECT_EQ(script.posted.size(), 4u);
    EXPECT_EQ(free.submission.outstanding, 4u);
    EXPECT_FALSE(blocked.front().work.done()) << "it waited until they were given up";
    script.silent.clear();
    EXPECT_TRUE(std::all_of(blocked.begin(), blocked.end(), [this](Offer& offer) { return ends(offer); }));
}

/// Beside its patience what a busy machine adds is little.
class SlowRailTest : public FabricRailTest {
  protected:
    static constexpr std::chrono::milliseconds patience{300};
    SlowRailTest() : FabricRailTest(1, true, std::chrono::nanoseconds(patience).count()) {}
};

TEST_F(SlowRailTest, HundredsOfPeersThatTakeNothingAreGivenUpInTheTimeOfOne) {
    PeerAddress last = 0;
    const auto give_up = [&] {
        std::deque<Offer> blocked;
        for (int i = 0; i < 400; ++i) {
            script.silent.insert(++last);
            blocked.emplace_back(rail_, 4, last);
        }
        const auto offered = std::chrono::steady_clock::now();
        EXPECT_TRUE(
            std::all_of(blocked.begin(), blocked.end(), [this](Offer& offer) { return ends(offer); }));
        return std::chrono::steady_clock::now() - offered;
    };
    const auto limit = 3 * patience;
    EXPECT_LT(test::least_of(limit, give_up), limit) << "one series after the other";
}

/// Gives nobody up before a test that a slow machine drives is over.
class PatientRailTest : public FabricRailTest {
  protected:
    PatientRailTest() : FabricRailTest(1, true, 60'000'000'000) {}
};

TEST_F(PatientRailTest, WhatGoesToOneOfHundredsOfPeersKeepsItsOrder) {
    constexpr std::uint32_t peers = 200;
    std::deque<Offer> offers;
    for (std::uint32_t peer = 0; peer < peers; ++peer)
        script.silent.insert(peer);
    for (std::uint32_t i = 0; i < 2 * peers; ++i) {  // the second ones from the last peer to the first
        offers.emplace_back(rail_, 1, i < peers ? i : 2 * peers - 1 - i);
        offers.back().work.immediate = i;
    }
    for (std::uint32_t step = 0; step < peers; ++step) {
        script.silent.erase(step * 7 % peers);  // one after the other, wherever the sweep is
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(std::all_of(offers.begin(), offers.end(), [this](Offer& offer) { return ends(offer); }));
    std::set<std::uint64_t> posted;
    for (const std::uint64_t i : script.immediates) {
        EXPECT_TRUE(i < peers || posted.count(2 * peers - 1 - i)) << "to peer " << 2 * peers - 1 - i;
        posted.insert(i);
    }
    EXPECT_EQ(posted.size(), 2 * peers);
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

TEST_F(FabricRailTest, AProviderThatRefusesForLongIsAskedSeldom) {
    script.silent = {1};
    Offer offer(rail_, 4, 1);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::size_t passes = 0;
    while (!offer.work.done() && std::chrono::steady_clock::now() < limit) {
        rail_.progress();
        ++passes;
    }
    EXPECT_TRUE(offer.work.done());
    EXPECT_LT(script.flags.size(), passes / 4) << "all but a fiftieth of the time it was known to refuse";
}

/// tcp tries to connect anew each time that it is asked.
TEST_F(FabricRailTest, OfWhatComesBackAPassAsksEachPeerOnceInVain) {
    constexpr std::size_t chunks = 20;
    Path refusing, willing;
    const std::uint32_t before = rail_.sender_generation();
    refusing.admit(before);
    willing.admit(before);
    Offer refused(rail_, chunks, 1, &refusing), taken(rail_, chunks, 2, &willing);
    ASSERT_EQ(script.posted.size(), 2 * chunks);
    rail_.request_renewal();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (rail_.sender_generation() == before && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    ASSERT_NE(rail_.sender_generation(), before);
    script_sender();
    script.silent = {1};
    script.flags.clear();
    refusing.admit(rail_.sender_generation());
    willing.admit(rail_.sender_generation());
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 3 * chunks) << "the other one's are on their way again";
    EXPECT_LE(script.flags.size(), chunks + 2) << "each pass asks once";
    script.silent.clear();
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 4 * chunks);
}

TEST_F(FabricRailTest, OneOnAPathThatHasFailedIsAskedHalfADozenTimesOnly) {
    script.silent = {1};
    Path path;
    path.fail();
    Offer offer(rail_, 4, 1, &path);
    offer.route.gated = false;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!offer.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    EXPECT_GE(script.flags.size(), 3u);
    EXPECT_LE(script.flags.size(), 10u) << "each time twice as long after the beginning";
}

TEST_F(FabricRailTest, PostsBesideAPeerThatRestsTakeNoCompletions) {
    script.silent = {1};
    Offer silent(rail_, 4, 1);
    Offer first(rail_, 1, 2);
    complete_all();
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20))
        rail_.progress();
    EXPECT_TRUE(first.work.done());
    Offer second(rail_, 1, 2);
    complete_all();
    Offer third(rail_, 1, 2);
    EXPECT_EQ(script.posted.size(), 1u);
    EXPECT_FALSE(second.work.done())
        << "as without that peer: a post costs what it costs, and they come in batches";
    script.silent.clear();
    EXPECT_TRUE(ends(silent));
    EXPECT_TRUE(ends(third));
}

TEST_F(FabricRailTest, OnceItTakesSomethingItIsAskedAtOnce) {
    script.silent = {1};
    Offer offer(rail_, 4, 1);
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(10))
        rail_.progress();
    script.silent.clear();
    while (script.posted.empty() && std::chrono::steady_clock::now() - start < std::chrono::seconds(10))
        rail_.progress();
    EXPECT_EQ(script.posted.size(), 4u) << "no pause between them";
}

TEST_F(FabricRailTest, WhatWaitsForAPeerIsGivenUpTogether) {
    script.silent = {1};
    std::deque<Offer> offers;
    for (int i = 0; i < 10; ++i)
        offers.emplace_back(rail_, 4, 1);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!offers.front().work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    for (Offer& offer : offers) {
        EXPECT_TRUE(offer.work.done());
        EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    }
}

TEST_F(FabricRailTest, WhatAPeerDoesNotTakeOnOnePathGoesOverAnother) {
    script.silent = {1};
    Detour detour(rail_, rail_, 2);
    Work& work = detour.work;
    detour.post();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!work.done() && std::chrono::steady_clock::now() < limit) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_TRUE(detour.usual.failed());
    EXPECT_EQ(script.bytes[2], 20u * 64);
}

TEST_F(FabricRailTest, OnePieceDoesNotTakeAPathThatHasFailed) {
    Detour detour(rail_, rail_, 2, 1);
    detour.usual.fail();
    detour.post();
    EXPECT_EQ(script.bytes[1], 0u);
    EXPECT_EQ(script.bytes[2], 64u);
    complete_all();
    rail_.progress();
    EXPECT_EQ(detour.work.status(), Status::ok);
}

TEST_F(FabricRailTest, NothingIsPostedBeforeTheGateOpens) {
    Path gate;
    Offer single(rail_, 1, 1, &gate);
    Offer gated(rail_, 4, 1, &gate);
    Offer other(rail_, 2, 2);
    EXPECT_EQ(script.posted.size(), 2u);
    EXPECT_TRUE(rail_.has_work());
    gate.admit(rail_.sender_generation());
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 7u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(gated.work.done());
    EXPECT_EQ(gated.work.status(), Status::ok);
    EXPECT_EQ(single.work.status(), Status::ok);
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

class PatientRail : public FabricRailTest {
  protected:
    PatientRail() : FabricRailTest(1, true, 10'000'000'000) {}
    static inline Work::Verdict verdict;
};

/// Else a progress thread would never rest while they wait; and else it would rest for too long.
TEST_F(PatientRail, ChunksThatWaitAreNoWorkButOnceAMillisecond) {
    TakingRail other;
    Detour detour(rail_, other, 1, 1);
    verdict = Work::Verdict::unknown;
    detour.work.immediate = 1000;
    detour.work.repeats = [](Work&, std::uint32_t) noexcept { return verdict; };
    detour.post();
    complete_all(FI_ECANCELED);
    rail_.progress();
    ASSERT_TRUE(rail_.has_work());
    long worked = 0, idle = 0;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (worked < 10 && std::chrono::steady_clock::now() < limit)
        ++(rail_.progress(Rail::Looker::background) == Rail::Progress::worked ? worked : idle);
    EXPECT_EQ(worked, 10);
    EXPECT_GT(idle, worked);
    EXPECT_FALSE(detour.work.done());
    verdict = Work::Verdict::repeat;
    EXPECT_EQ(rail_.progress(Rail::Looker::background), Rail::Progress::worked);
    EXPECT_EQ(other.taken.size(), 1u) << "each pass looks at them";
    EXPECT_TRUE(detour.work.done());
}

}  // namespace
}  // namespace railyard
