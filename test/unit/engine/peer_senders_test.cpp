// What a peer has said of its senders, when another Peer goes on for the same instance.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "engine/peer.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace peer_senders_test {

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

class PeerSendersTest : public testing::Test {
  protected:
    std::shared_ptr<Peer> peer(const std::string& agent = "beta", std::uint64_t nonce = 99) {
        auto made =
            std::make_shared<Peer>(ConnectionInfo{agent, nonce, rails_->provider(), rails_->addresses()},
                                   rails_, std::make_shared<MessageIds>());
        made->resolve(control_pair);
        return made;
    }
    /// A peer that says so of its sender.
    std::shared_ptr<Peer> with_sender(std::uint32_t generation, RailPair pair, std::size_t address) {
        auto made = peer();
        made->admit(pair, generation, rails_->addresses().at(address));
        return made;
    }

    NullSink sink_;
    std::shared_ptr<RailManager> rails_ = std::make_shared<RailManager>(
        Params::parse({{"provider", "tcp"}, {"devices", "lo"}, {"rails_per_device", "2"}}), false, sink_);
};

TEST_F(PeerSendersTest, AreHandedOverAndTheLatestOfEachPairStays) {
    const auto known = peer(), first = with_sender(2, control_pair, 0);
    const PeerAddress of_first = first->asks_from().address;
    ASSERT_NE(of_first, no_address);
    known->take_senders(*first);
    EXPECT_EQ(known->asks_from().address, of_first);
    EXPECT_EQ(first->asks_from().address, no_address) << "it would be given back twice";
    known->take_senders(*known);
    EXPECT_EQ(known->asks_from().address, of_first);

    const auto older = with_sender(1, control_pair, 1), newer = with_sender(3, control_pair, 1);
    const PeerAddress of_newer = newer->asks_from().address;
    ASSERT_NE(of_newer, of_first);
    known->take_senders(*older);
    EXPECT_EQ(known->asks_from().address, of_first);
    known->take_senders(*newer);
    EXPECT_EQ(known->asks_from().address, of_newer);

    const std::size_t before = known->weight();
    known->take_senders(*with_sender(1, {1, 1}, 1));
    EXPECT_EQ(known->weight(), before + 1) << "of another pair of rails";
    EXPECT_EQ(known->asks_from().address, of_newer);
    const auto last = peer();
    last->take_senders(*known);
    EXPECT_EQ(last->weight(), before + 1);
    EXPECT_EQ(last->asks_from().address, of_newer);
}

TEST_F(PeerSendersTest, OfAnInstanceAreThoseOfItsNameNumberAndRails) {
    const auto known = peer();
    EXPECT_TRUE(known->is_same_instance(*peer()));
    EXPECT_TRUE(known->is_same_instance(*known->anew()));
    EXPECT_FALSE(known->is_same_instance(*peer("gamma")));
    EXPECT_FALSE(known->is_same_instance(*peer("beta", 98)));
    const Peer smaller(ConnectionInfo{"beta", 99, rails_->provider(), {rails_->addresses().front()}}, rails_,
                       std::make_shared<MessageIds>());
    EXPECT_FALSE(known->is_same_instance(smaller));
}

}  // namespace peer_senders_test
}  // namespace railyard
