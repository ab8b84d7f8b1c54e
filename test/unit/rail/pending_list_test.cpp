#include "rail/pending_list.h"

#include <gtest/gtest.h>

#include <string>

namespace railyard {
namespace {

struct Node {
    Node* next = nullptr;
    char name = 0;
};

std::string drain(PendingList<Node>& list) {
    std::string names;
    while (!list.empty())
        names += list.pop_front()->name;
    return names;
}

TEST(PendingList, KeepsTheOrderOfWhatIsPutBackInFront) {
    Node nodes[] = {{nullptr, 'a'}, {nullptr, 'b'}, {nullptr, 'c'}, {nullptr, 'd'}};
    PendingList<Node> list, kept;
    list.push_back(nodes[2]);
    list.push_back(nodes[3]);
    kept.push_back(nodes[0]);
    kept.push_back(nodes[1]);
    list.prepend(kept);
    EXPECT_TRUE(kept.empty());
    EXPECT_EQ(drain(list), "abcd");
    kept.push_back(nodes[0]);
    list.prepend(kept);
    list.push_back(nodes[1]);
    EXPECT_EQ(drain(list), "ab");
}

TEST(PendingList, AppendsAChainAndCountsIt) {
    Node last{nullptr, 'z'};
    Node first{&last, 'y'};
    PendingList<Node> list;
    EXPECT_EQ(list.append(&first), 2u);
    EXPECT_EQ(list.append(nullptr), 0u);
    EXPECT_EQ(drain(list), "yz");
}

TEST(BlockedSet, KnowsItsPeersAndWhenItIsFull) {
    BlockedSet blocked;
    for (int pass = 0; pass < 3; ++pass) {
        for (PeerAddress peer = 0; peer < BlockedSet::most; ++peer) {
            EXPECT_FALSE(blocked.full());
            EXPECT_FALSE(blocked.contains(peer * 128 + 1));
            blocked.insert(peer * 128 + 1);
            blocked.insert(1);  // once
        }
        EXPECT_TRUE(blocked.full());
        for (PeerAddress peer = 0; peer < BlockedSet::most; ++peer)
            EXPECT_TRUE(blocked.contains(peer * 128 + 1));
        EXPECT_FALSE(blocked.contains(2));
        blocked.insert(2);  // full, so it is left out
        EXPECT_FALSE(blocked.contains(2));
        blocked.clear();
        EXPECT_FALSE(blocked.contains(1));
    }
}

}  // namespace
}  // namespace railyard
