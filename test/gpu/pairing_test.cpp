// Two processes, every pairing of GPU and host memory, both directions, verified byte by byte with guards
// around each block.
#include <ostream>

#include "suite.h"

namespace railyard::gpu {
namespace {

struct Pairing {
    std::string fabric;
    bool mem = false, target_mem = false;
};

void PrintTo(const Pairing& pairing, std::ostream* out) {
    *out << pairing.fabric << (pairing.mem ? " vram" : " dram") << (pairing.target_mem ? " vram" : " dram");
}

std::vector<Pairing> pairings() {
    std::vector<Pairing> all;
    for (const std::string& fabric : setup().fabrics) {
        for (const bool mem : {true, false}) {
            for (const bool target_mem : {true, false})
                all.push_back({fabric, mem, target_mem});
        }
    }
    return all;
}

const char* kind(bool vram) {
    return vram ? "vram" : "dram";
}

std::string name_of(const testing::TestParamInfo<Pairing>& info) {
    std::string name = info.param.fabric + "_" + kind(info.param.mem) + "_" + kind(info.param.target_mem);
    for (char& letter : name) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
    }
    return name;
}

class Pairings : public OnGpu, public testing::WithParamInterface<Pairing> {
  protected:
    /// Every point was measured, verified and found right.
    static void expect_right(std::vector<std::string> more, std::size_t points) {
        const Pairing& pairing = GetParam();
        const std::string ordinal = std::to_string(setup().gpu);
        std::vector<std::string> words = {"--provider",   pairing.fabric,
                                          "--mem",        kind(pairing.mem),
                                          "--target-mem", kind(pairing.target_mem),
                                          "--gpu",        ordinal,
                                          "--op",         "both",
                                          "--memory",     "256M"};
        words.insert(words.end(), more.begin(), more.end());
        const nlohmann::json document = run_bench(words);
        EXPECT_FALSE(document.contains("error")) << document.value("error", "");
        ASSERT_EQ(document.at("results").size(), points);
        for (const nlohmann::json& row : document.at("results"))
            EXPECT_TRUE(row.at("checked").get<bool>()) << row.dump();
    }
};

TEST_P(Pairings, EveryByteArrivesOfAnySize) {
    expect_right({"--sizes", "1,8,4097,65536,1000003,8M", "--iters", "4", "--window", "2"}, 12);
}

TEST_P(Pairings, EveryByteArrivesWithNotificationsAndManyDescriptors) {
    expect_right(
        {"--sizes", "9,5000", "--batch", "1,1500", "--notify", "on", "--iters", "5", "--window", "2"}, 8);
}

TEST_P(Pairings, EveryByteArrivesWithProgressThreads) {
    expect_right({"--sizes", "8,4097,3M", "--notify", "both", "--iters", "9", "--window", "3", "--pt", "on"},
                 12);
}

INSTANTIATE_TEST_SUITE_P(TwoProcesses, Pairings, testing::ValuesIn(pairings()), name_of);

}  // namespace
}  // namespace railyard::gpu
