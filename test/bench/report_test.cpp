#include "report.h"

#include <gtest/gtest.h>

namespace railyard::bench {
namespace {

PointResult sample() {
    PointResult result;
    result.point.layout = {4096, 16, 8};
    result.point.op = host::Op::read;
    result.point.notify = true;
    result.main.transfers = 1000;
    result.main.transfers_per_s = 500;
    result.main.mb_per_s = 32.768;
    for (int i = 0; i < 100; ++i)
        result.main.latency.add(10'000);
    result.checked = true;
    return result;
}

TEST(BenchReport, KeysWithoutRaw) {
    Options options;
    options.progress_thread = true;
    nlohmann::json json = to_json(sample(), options, {"tcp", 4});
    EXPECT_EQ(json.at("op"), "read");
    EXPECT_EQ(json.at("size"), 4096);
    EXPECT_EQ(json.at("batch"), 16);
    EXPECT_EQ(json.at("rails"), 4);
    EXPECT_EQ(json.at("notify"), true);
    EXPECT_EQ(json.at("pt"), true);
    EXPECT_DOUBLE_EQ(json.at("mb_per_s"), 32.768);
    EXPECT_DOUBLE_EQ(json.at("ops_per_s"), 8000);
    for (const char* key : {"p50_us", "p99_us", "p999_us"})
        EXPECT_NEAR(json.at(key).get<double>(), 10, 0.1) << key;
    EXPECT_TRUE(json.at("raw_mb_per_s").is_null());
    EXPECT_TRUE(json.at("ratio_raw").is_null());
    EXPECT_EQ(json.at("checked"), true);
    EXPECT_FALSE(json.contains("wrong"));
}

TEST(BenchReport, SaysWhereTheMemoryLies) {
    nlohmann::json json = to_json(sample(), Options{});
    EXPECT_EQ(json.at("mem"), "dram");
    EXPECT_EQ(json.at("target_mem"), "dram");
    EXPECT_TRUE(json.at("rails").is_null()) << "nobody has said";
    EXPECT_EQ(json.at("stream"), "off");
    EXPECT_TRUE(json.at("gpu").is_null() && json.at("target_gpu").is_null());
    Options options;
    options.target_mem = {true, 3};
    json = to_json(sample(), options);
    EXPECT_TRUE(json.at("gpu").is_null());
    EXPECT_EQ(json.at("target_mem"), "vram");
    EXPECT_EQ(json.at("target_gpu"), 3);
    options.mem.gpu = 1;
    options.stream = StreamMode::attached;
    json = to_json(sample(), options);
    EXPECT_EQ(json.at("gpu"), 1) << "the streams are on it";
    EXPECT_EQ(json.at("stream"), "attached");
}

TEST(BenchReport, HeadingNamesGpuMemoryAndStreams) {
    Options options;
    options.mem = {true, 1};
    options.stream = StreamMode::pool;
    Report report(options, 1);
    testing::internal::CaptureStdout();
    report.add(sample());
    EXPECT_NE(testing::internal::GetCapturedStdout().find("vram of GPU 1 and dram, stream pool"),
              std::string::npos);
}

TEST(BenchReport, RatioIsOursOverRaw) {
    PointResult result = sample();
    result.raw.emplace();
    result.main.slice_rates = {500};
    result.raw->slice_rates = {1000};
    result.raw->mb_per_s = 65.536;
    nlohmann::json json = to_json(result, Options{});
    EXPECT_DOUBLE_EQ(json.at("ratio_raw"), 0.5);
    EXPECT_DOUBLE_EQ(json.at("raw_mb_per_s"), 65.536);
}

/// A machine that becomes slower all the time: the medians are those of different moments.
TEST(BenchReport, RatioIsThatOfPairsOfSlices) {
    PointResult result = sample();
    result.raw.emplace();
    result.main.slice_rates = {900, 850, 300, 250, 200};
    result.raw->slice_rates = {900, 850, 600, 500, 200};
    EXPECT_DOUBLE_EQ(result.ratio().value(), 1);
    result.raw->slice_rates.pop_back();
    EXPECT_FALSE(result.ratio());
}

TEST(BenchReport, WrongDataIsNeverAllRight) {
    Options options;
    options.json = "-";
    Report report(options, 1);
    EXPECT_FALSE(report.all_right());
    PointResult result = sample();
    result.wrong = "a byte";
    result.checked = false;
    testing::internal::CaptureStderr();
    report.add(result);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("WRONG: read of 4K"), std::string::npos);
    EXPECT_FALSE(report.all_right());
}

TEST(BenchReport, DocumentHasVersionHostAndResults) {
    Options options;
    options.json = "-";
    Report report(options, 1);
    report.add(sample());
    EXPECT_TRUE(report.all_right());
    testing::internal::CaptureStdout();
    report.finish("");
    nlohmann::json document = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    EXPECT_EQ(document.at("version"), 1);
    EXPECT_TRUE(document.at("host").is_object());
    EXPECT_EQ(document.at("results").size(), 1u);
    EXPECT_FALSE(document.contains("error"));
}

}  // namespace
}  // namespace railyard::bench
