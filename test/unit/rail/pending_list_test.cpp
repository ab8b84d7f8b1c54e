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

}  // namespace
}  // namespace railyard
