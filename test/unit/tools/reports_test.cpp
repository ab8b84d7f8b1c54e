// Reports of surveys that no machine here would give.
#include "tools/reports.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/picture_groups.h"
#include "tools/svg.h"

namespace railyard::tools {
namespace {

using topology::NodeKind;
using topology::PciAddress;

/// One package with a host bridge, a switch of one GPU and one NIC with two rails, and a rail without an
/// address.
Survey small_survey() {
    Survey survey;
    survey.title = "a<b>&\"c\"";
    survey.machine.tree = {{},
                           {NodeKind::package, 0, 0, 0, {}},
                           {NodeKind::host_bridge, 1, 0, 0, {2, 0x40, 0, 0}},
                           {NodeKind::pci_bridge, 2, 0, 0, {2, 0x40, 0, 0}}};
    survey.machine.numa = {{0, std::uint64_t{64} << 30, {}}};
    survey.machine.nics = {{"mlx5_0", {2, 0x41, 0, 1}, 12.5, 0, false, 3}};
    survey.machine.gpus = {{0, {2, 0x42, 0, 0}, 0, 0, 3}};
    survey.rails = {
        {"mlx5_0",
         "verbs;ofi_rxm",
         "IB-0xfe80",
         PciAddress{2, 0x41, 0, 1},
         0,
         12.5,
         "up",
         false,
         {{"tx", "size", "1"}}},
        {"mlx5_0",
         "verbs;ofi_rxm",
         "IB-0xfe80",
         PciAddress{2, 0x41, 0, 1},
         0,
         12.5,
         "down",
         false,
         {{"tx", "size", "2"}}},
        {"bad\xffname", "tcp", "10.0.0.0/8", std::nullopt, -1, 0, "up", false, {{"tx", "size", "2"}}}};
    std::vector<topology::RailDesc> rails;
    for (const RailRow& row : survey.rails)
        rails.push_back({row.name, row.pci, row.gbps});
    survey.map = topology::select_rails(survey.machine, rails);
    return survey;
}

TEST(JsonReport, IsWhatProgramsExpect) {
    const auto report = nlohmann::json::parse(json_report(small_survey()));
    const auto wanted = nlohmann::json::parse(R"({
        "rails": [
            {"name": "mlx5_0", "pci": "0002:41:00.1", "numa": 0, "gbps": 12.5, "provider": "verbs;ofi_rxm", "fabric": "IB-0xfe80"},
            {"name": "mlx5_0", "pci": "0002:41:00.1", "numa": 0, "gbps": 12.5, "provider": "verbs;ofi_rxm", "fabric": "IB-0xfe80"},
            {"name": "bad\ufffdname", "pci": null, "numa": -1, "gbps": 0, "provider": "tcp", "fabric": "10.0.0.0/8"}],
        "gpus": [{"pci": "0002:42:00.0", "numa": 0, "rails": ["mlx5_0", "mlx5_0", "bad\ufffdname"]}],
        "numa": [{"node": 0, "rails": ["mlx5_0", "mlx5_0", "bad\ufffdname"],
                  "in_turn": [["mlx5_0", "mlx5_0", "bad\ufffdname"]]}]})");
    EXPECT_EQ(report, wanted);
}

/// The survey above with two GPUs, one of them of an old kind, and one rail that reaches them.
Survey with_gpus() {
    Survey survey = small_survey();
    survey.rails[1].gpu_memory = true;
    GpuSurvey& cuda = survey.cuda.emplace();
    cuda.built_with = "own declarations";
    cuda.driver = "12.8";
    cuda::Device device;
    device.ordinal = 0;
    device.name = "NVIDIA H100";
    device.pci = "0002:42:00.0";
    device.memory = std::uint64_t{80} << 30;
    device.gpu_direct_rdma = device.dma_buf = true;
    cuda.gpus.push_back({device, "owner", "at once"});
    device.ordinal = 1;
    device.dma_buf = false;
    cuda.gpus.push_back({device, "none", "read back"});
    return survey;
}

TEST(JsonReport, HasWhatTheCudaDriverSays) {
    const auto report = nlohmann::json::parse(json_report(with_gpus()));
    EXPECT_EQ(report["cuda"], nlohmann::json::parse(R"({
        "built_with": "own declarations", "driver": "12.8", "absent_because": null,
        "gpus": [
            {"ordinal": 0, "name": "NVIDIA H100", "pci": "0002:42:00.0", "gpu_direct_rdma": true, "dmabuf": true,
             "writes_ordering": "owner", "visibility": "at once"},
            {"ordinal": 1, "name": "NVIDIA H100", "pci": "0002:42:00.0", "gpu_direct_rdma": true, "dmabuf": false,
             "writes_ordering": "none", "visibility": "read back"}],
        "hmem_rails": ["mlx5_0"]})"));
    const auto without = nlohmann::json::parse(json_report(small_survey()));
    for (const char* part : {"rails", "gpus", "numa"})
        EXPECT_EQ(report[part], without[part]) << part;
}

TEST(TextReport, HasWhatTheCudaDriverSays) {
    const std::string text = text_report(with_gpus(), false);
    for (const char* part : {"CUDA: built with own declarations, driver for CUDA 12.8\n", "NVIDIA H100",
                             "80 GiB", "read back", "FI_HMEM"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    EXPECT_NE(text.find("12.5    up     no"), std::string::npos) << text;
    EXPECT_NE(text.find("12.5    down   yes"), std::string::npos) << text;
    Survey none = small_survey();
    none.cuda = {"CUDA 13.0 headers", "", "no such file", {}};
    const std::string absent = text_report(none, false);
    EXPECT_NE(absent.find("CUDA: built with CUDA 13.0 headers, no driver: no such file\n"), std::string::npos)
        << absent;
    EXPECT_EQ(text_report(small_survey(), false).find("CUDA"), std::string::npos);
}

TEST(JsonReport, OfNothing) {
    EXPECT_EQ(nlohmann::json::parse(json_report({})),
              nlohmann::json::parse(R"({"rails":[],"gpus":[],"numa":[]})"));
}

TEST(TextReport, AttributesTogetherOrEach) {
    const Survey survey = small_survey();
    const std::string text = text_report(survey, false);
    EXPECT_NE(text.find("Others differ: tx size"), std::string::npos) << text;
    EXPECT_NE(text.find("down"), std::string::npos) << text;
    const std::string every = text_report(survey, true);
    EXPECT_NE(every.find("size: 1"), std::string::npos) << every;
    EXPECT_NE(every.find("size: 2"), std::string::npos) << every;
}

TEST(TextReport, SaysHowManyRailsARangeHasOfThoseInTurn) {
    Survey survey = small_survey();
    survey.map.by_numa = {{{0, 1}, {1, 2}}};
    EXPECT_NE(text_report(survey, false).find("  2 of 3, in turn  "), std::string::npos);
    survey.map.by_numa = {{{0, 1}, {2}}};
    EXPECT_NE(text_report(survey, false).find("  1 to 2 of 3, in turn  "), std::string::npos);
    const auto numa = nlohmann::json::parse(json_report(survey)).at("numa").at(0);
    EXPECT_EQ(numa.at("rails").size(), 3u);
    EXPECT_EQ(numa.at("in_turn"), nlohmann::json::parse(R"([["mlx5_0", "mlx5_0"], ["bad\ufffdname"]])"));
}

TEST(TextReport, OfNothing) {
    const std::string text = text_report({}, false);
    EXPECT_NE(text.find("Rails: 0"), std::string::npos) << text;
    EXPECT_NE(text.find("GPUs: none"), std::string::npos) << text;
}

TEST(Picture, ContentsAreGrouped) {
    const PictureContents contents = picture_contents(small_survey());
    ASSERT_EQ(contents.nics.size(), 1u);
    EXPECT_EQ(contents.nics[0].rails, 2u);
    EXPECT_EQ(contents.placeless, (std::vector<std::size_t>{2}));
    ASSERT_EQ(contents.panels.size(), 1u);
    ASSERT_EQ(contents.panels[0].groups.size(), 1u);
    const PictureGroup& group = contents.panels[0].groups[0];
    EXPECT_EQ(group.title, "Host bridge 0002:40");
    EXPECT_EQ(group.subtitle, "PCIe switch 0002:40:00.0");
    ASSERT_EQ(group.gpus.size(), 1u);
    EXPECT_EQ(group.gpus[0].own, (std::vector<std::size_t>{0}));
    EXPECT_TRUE(group.nics.empty());
}

TEST(Picture, EscapesWhatItShows) {
    const std::string svg = picture(small_survey());
    EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;"), std::string::npos);
    EXPECT_EQ(svg.find("a<b>"), std::string::npos);
    EXPECT_EQ(svg.find('\xff'), std::string::npos) << "no UTF-8, so no XML";
    EXPECT_NE(svg.find("each carries all memory"), std::string::npos);
    EXPECT_EQ(escape_xml("a\x01\"b"), "a &quot;b");
    EXPECT_EQ(escape_xml("→"), "→");
}

TEST(Picture, OfNothing) {
    EXPECT_NE(picture({}).find("</svg>"), std::string::npos);
}

TEST(Picture, WhatBelongsToNoPackageHasAPlaceToo) {
    Survey survey = small_survey();
    survey.machine.tree[1] = {};
    survey.machine.tree[1].parent = 0;
    survey.machine.tree[2].parent = 0;
    survey.machine.tree[1].kind = NodeKind::pci_bridge;  // empty
    const PictureContents contents = picture_contents(survey);
    ASSERT_EQ(contents.panels.size(), 1u);
    EXPECT_EQ(contents.panels[0].groups.size(), 1u);
    EXPECT_EQ(contents.panels[0].nodes.size(), 1u);
}

}  // namespace
}  // namespace railyard::tools
