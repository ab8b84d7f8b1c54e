#include "rail/prompt_looks.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

constexpr unsigned rare = PromptLooks::posts_between_trials;

unsigned looks_in(PromptLooks& looks, unsigned posts, bool ended) {
    unsigned made = 0;
    for (unsigned i = 0; i < posts; ++i) {
        if (!looks.due()) continue;
        ++made;
        looks.looked(ended);
    }
    return made;
}

TEST(PromptLooks, AreTriedNowAndThenWhereTheyFindNothing) {
    PromptLooks looks;
    EXPECT_EQ(looks_in(looks, 100 * rare, false), 100u);
}

TEST(PromptLooks, FollowEachPostForAsLongAsTheySucceed) {
    PromptLooks looks;
    EXPECT_EQ(looks_in(looks, 2 * rare, true), rare + 1) << "from the first trial on";
    EXPECT_EQ(looks_in(looks, 1000, true), 1000u);
    EXPECT_EQ(looks_in(looks, rare, false), 1u) << "in vain";
    EXPECT_EQ(looks_in(looks, 1, false), 1u) << "the next trial";
}

}  // namespace
}  // namespace railyard
