#include "common/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace railyard::log {
namespace {

std::vector<std::string> lines;
void keep(Level, const char* line) {
    lines.emplace_back(line);
}

class LogTest : public testing::Test {
  protected:
    void SetUp() override {
        lines.clear();
        set_sink(keep);
    }
    void TearDown() override {
        set_sink(nullptr);
        set_level(Level::warn);
    }
};

TEST_F(LogTest, LinesCarryLevelAndObject) {
    set_level(Level::info);
    RAILYARD_LOG(info, "rail7", "opened %d", 42);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("INFO"), std::string::npos);
    EXPECT_NE(lines[0].find("rail7: opened 42"), std::string::npos);
}

TEST_F(LogTest, LowerLevelsAreNotEvenEvaluated) {
    set_level(Level::error);
    int evaluated = 0;
    RAILYARD_LOG(warn, "", "%d", ++evaluated);
    EXPECT_TRUE(lines.empty());
    EXPECT_EQ(evaluated, 0);
}

TEST_F(LogTest, AnOverlongLineIsCut) {
    RAILYARD_LOG(error, "x", "%s", std::string(5000, 'y').c_str());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_LT(lines[0].size(), 1024u);
}

TEST_F(LogTest, LevelsAreReadInAnyCase) {
    Level level = Level::off;
    EXPECT_TRUE(parse_level("Debug", level));
    EXPECT_EQ(level, Level::debug);
    EXPECT_TRUE(parse_level("WARNING", level));
    EXPECT_EQ(level, Level::warn);
    EXPECT_FALSE(parse_level("loud", level));
    EXPECT_EQ(level, Level::warn);
}

}  // namespace
}  // namespace railyard::log
