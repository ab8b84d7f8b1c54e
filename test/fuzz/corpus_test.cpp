// Every input that is kept, through its target: what the fuzzers once found stays mended, in ordinary builds,
// too.   With RAILYARD_WRITE_CORPUS=1: writes the inputs that the encoders make anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/log.h"
#include "targets.h"

namespace railyard::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path corpus = RAILYARD_FUZZ_CORPUS;

std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
}

class Corpus : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override { log::set_level(log::Level::off); }
    void TearDown() override { log::set_level(log::Level::warn); }
};

TEST_P(Corpus, HoldsWhatTheEncodersMakeToday) {
    const auto made = seeds(GetParam());
    ASSERT_FALSE(made.empty());
    for (const auto& [name, bytes] : made) {
        const fs::path path = corpus / GetParam() / name;
        if (std::getenv("RAILYARD_WRITE_CORPUS")) {
            fs::create_directories(path.parent_path());
            std::ofstream(path, std::ios::binary) << bytes;
        }
        EXPECT_TRUE(content(path) == bytes) << path << ": run this test with RAILYARD_WRITE_CORPUS=1";
    }
}

TEST_P(Corpus, RunsThroughItsTarget) {
    const Target target = targets().at(GetParam());
    std::size_t run = 0, taken = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(corpus / GetParam())) {
        const std::string whole = content(entry.path());
        taken += target(whole);
        ++run;
        // And cut short, which is what most of a fuzzer's inputs are.
        for (std::size_t size = 0; size < whole.size(); ++size)
            target(std::string_view(whole).substr(0, size));
    }
    EXPECT_GE(run, seeds(GetParam()).size());
    EXPECT_GE(taken, 1u) << "the target takes nothing: it tests its own refusal";
}

/// Else a fuzzer that starts from them does not get behind the first look.
TEST(Corpus, WhatPeersTellOfThemselvesIsTakenWhole) {
    for (const char* name : {"connection", "memory", "introduction"}) {
        for (const auto& [input, bytes] : seeds(name))
            EXPECT_TRUE(targets().at(name)(bytes)) << name << "/" << input;
    }
}

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& [name, target] : targets())
        all.push_back(name);
    return all;
}

INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace railyard::fuzz
