// What is kept of a peer: which pairs of rails it has been told of, and which of its senders we have taken
// in.
#include "engine/peer.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

class PeerTest : public testing::Test {
  protected:
    static constexpr std::uint64_t second = 1'000'000'000;
    static constexpr std::uint64_t start = 1000 * second;
    const Fabric fabric_{"efa-direct", 2, false};
    BareRails here_{fabric_};
    BareRails there_{fabric_};
    /// The pairs that are to be announced now.
    std::vector<RailPair> unannounced(std::uint64_t at) {
        std::vector<RailPair> pairs;
        for (const IntroducedPair& introduced : peer_.take_unannounced(at)) {
            EXPECT_EQ(introduced.generation, here_.rails->rail(introduced.pair.local).sender_generation());
            EXPECT_EQ(introduced.sender, here_.rails->rail(introduced.pair.local).sender().address);
            pairs.push_back(introduced.pair);
        }
        return pairs;
    }
    Peer peer_{{"there", 5, "efa-direct", there_.rails->addresses()}, here_.rails, MessageCounters().of(5)};
};

TEST_F(PeerTest, PairsAreAnnouncedOnceAndAgainAfterASecond) {
    EXPECT_TRUE(unannounced(start).empty());
    peer_.resolve({0, 0});
    peer_.resolve({1, 1});
    peer_.resolve({1, 1});
    const std::vector<RailPair> both{{0, 0}, {1, 1}};
    EXPECT_EQ(unannounced(start), both);
    EXPECT_TRUE(unannounced(start - 1).empty()) << "another thread has read the clock before";
    EXPECT_TRUE(unannounced(start + 1).empty());
    EXPECT_TRUE(unannounced(start + second - 1).empty());
    EXPECT_EQ(unannounced(start + second), both);
    EXPECT_TRUE(unannounced(start + 2 * second - 1).empty());
    EXPECT_EQ(unannounced(start + 2 * second), both);
}

TEST_F(PeerTest, ANewPairIsAnnouncedAtOnceAndAKnownOneNeverAgain) {
    const PeerEndpoint& first = peer_.resolve({0, 0});
    EXPECT_EQ(unannounced(start).size(), 1u);
    peer_.resolve({0, 1});
    EXPECT_EQ(unannounced(start + 1), (std::vector<RailPair>{{0, 1}}));
    EXPECT_TRUE(peer_.needs_introduction());
    EXPECT_FALSE(first.path.introduced());
    const std::vector<IntroducedPair> known = introduced({{0, 0}});
    peer_.introduced(known);
    peer_.introduced(known);
    EXPECT_TRUE(first.path.admits(1));
    EXPECT_TRUE(peer_.unacquainted());
    EXPECT_EQ(unannounced(start + 5 * second), (std::vector<RailPair>{{0, 1}}));
    const std::vector<IntroducedPair> rest = introduced({{0, 1}, {7, 9}});  // the second was never resolved
    peer_.introduced(rest);
    EXPECT_FALSE(peer_.unacquainted());
    EXPECT_TRUE(unannounced(start + 9 * second).empty());
}

/// Else it would be given back when the peer goes, where there is no such address.
TEST_F(PeerTest, ASenderThatIsRefusedIsNone) {
    const std::size_t before = peer_.weight();
    EXPECT_THROW(peer_.admit({0, 0}, 1, "none"), Error);
    EXPECT_EQ(peer_.weight(), before);
    const std::string sender = there_.rails->addresses().front();
    peer_.admit({0, 0}, 1, sender);
    EXPECT_EQ(peer_.weight(), before + 1);
    peer_.resolve({0, 0});
    const PeerAddress address = peer_.asks_from().address;
    EXPECT_NE(address, no_address);
    EXPECT_THROW(peer_.admit({0, 0}, 2, "none"), Error);
    EXPECT_EQ(peer_.asks_from().address, address) << "the one before stays";
}

TEST_F(PeerTest, MessagesGoPastAPairThatCannotBeResolved) {
    Peer peer({"there", 5, "efa-direct", {there_.rails->addresses().front(), "none"}}, here_.rails,
              MessageCounters().of(5));
    const PeerEndpoint& first = peer.resolve({0, 0});
    peer.resolve({0, 0}).path.fail();
    EXPECT_FALSE(peer.choose_control_route());
    EXPECT_EQ(peer.control_route().path, &first.path);
    peer.admit({1, 0}, 1, there_.rails->addresses().front());
    EXPECT_TRUE(peer.choose_control_route());
    EXPECT_EQ(peer.control_route().rail, &here_.rails->rail(1));
}

/// Its third rail pairs with our first, whose own pair is another; nobody has to have said so.
TEST_F(PeerTest, MessagesGoTheWayThatThePeerComes) {
    const Fabric three{"efa", 3, false}, two{"efa", 2, false};
    BareRails here(two), there(three);
    Peer peer({"there", 5, "efa", there.rails->addresses()}, here.rails, MessageCounters().of(5));
    peer.resolve({0, 0}).path.fail();
    peer.resolve({1, 1}).path.fail();
    ASSERT_TRUE(peer.choose_control_route());
    EXPECT_EQ(peer.control_route().rail, &here.rails->rail(0));
    const PeerEndpoint& third = peer.resolve({0, 2});
    EXPECT_EQ(peer.control_route().path, &third.path);
}

TEST_F(PeerTest, FabricEfaNeedsNoIntroduction) {
    const Fabric efa{"efa", 1, false};
    BareRails here(efa), there(efa);
    Peer peer({"there", 5, "efa", there.rails->addresses()}, here.rails, MessageCounters().of(5));
    peer.resolve({0, 0});
    EXPECT_FALSE(peer.needs_introduction());
    EXPECT_FALSE(peer.unacquainted());
    EXPECT_TRUE(peer.take_unannounced(start).empty());
}

/// Nobody has counted its pairs among those that wait.
TEST_F(PeerTest, AnAcknowledgementThatNobodyWaitsForChangesNothing) {
    const Fabric efa{"efa", 1, false};
    BareRails here(efa), there(efa);
    Peer peer({"there", 5, "efa", there.rails->addresses()}, here.rails, MessageCounters().of(5));
    peer.resolve({0, 0});
    peer.introduced(introduced({{0, 0}}));
    EXPECT_FALSE(peer.unacquainted());
    peer.require_introduction();
    EXPECT_TRUE(peer.unacquainted());
    EXPECT_EQ(peer.take_unannounced(second).size(), 1u);
    peer.introduced(introduced({{0, 0}}));
    EXPECT_FALSE(peer.unacquainted());
    peer.introduced(introduced({{0, 0}}));
    EXPECT_FALSE(peer.unacquainted()) << "acknowledged twice";
}

}  // namespace
}  // namespace railyard::test
