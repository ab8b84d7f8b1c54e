// The control interface: settings, rules for NICs to come, clusters apart from each other, the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

std::uint64_t stored(std::string_view text) {
    const ChangeList list = parse_change(text);
    EXPECT_EQ(list.size, 1U);
    return list.changes[0].value;
}

TEST(Settings, UnitsAreTheUsers) {
    EXPECT_EQ(stored("latency_us=1.5"), 1500U);
    EXPECT_EQ(stored("timeout_ms=3"), 3'000'000U);
    EXPECT_EQ(stored("tx_rate_gbps=8"), 1'000'000'000U);
    EXPECT_EQ(stored("error_probability=0.25"), 250'000U);
    EXPECT_EQ(stored("link=down"), 1U);
    EXPECT_EQ(stored("link=up"), 0U);
    EXPECT_EQ(stored("rdma_write=auto"), 0U);
    EXPECT_EQ(stored("rdma_write=off"), 1U);
    EXPECT_EQ(stored("rdma_write=on"), 2U);
    EXPECT_EQ(parse_change("rate_gbps=1").size, 2U);
}

TEST(Settings, NonsenseIsRefused) {
    for (const char* text : {"", "latency_us", "nothing=1", "latency_us=", "latency_us=fast", "latency_us=-1",
                             "error_probability=2", "link=sideways", "latency_us=nan", "latency_us=1x"})
        EXPECT_THROW((void)parse_change(text), std::invalid_argument) << text;
    for (const SettingInfo& info : setting_table())
        EXPECT_NO_THROW((void)parse_change(std::string(info.name) + "=1")) << info.name;
}

TEST(Control, SettingsHoldForNicsThatComeLater) {
    Control control;
    control.set("latency_us=7", {"*", nic_name(2)});
    control.set("latency_us=9", {"other*", "*"});
    Side side{{.nic = 2}};
    const auto states = control.list({"host0", nic_name(2)});
    ASSERT_EQ(states.size(), 1U);
    EXPECT_EQ(states[0].settings.at("latency_us"), 7);
    control.reset();
    EXPECT_TRUE(control.list({"host0", nic_name(2)})[0].settings.empty());
}

TEST(Control, ClustersDoNotSeeEachOther) {
    const std::string name = "test-other-" + std::to_string(getpid());
    Control own, other(name);
    other.set("latency_us=50");
    Side side;
    EXPECT_TRUE(own.list()[0].settings.empty());
    EXPECT_TRUE(other.list().empty());
}

/// Trees of different versions on one machine have nothing to do with each other.
TEST(Control, TheNameThatNobodyChoseIsOfOneUserAndLayout) {
    const std::string chosen = cluster_name();
    unsetenv("SIMEFA_NAMESPACE");
    const std::string name = cluster_name();
    setenv("SIMEFA_NAMESPACE", chosen.c_str(), 1);
    EXPECT_EQ(name, "user" + std::to_string(getuid()) + "-" + std::to_string(layout_magic & 0xff));
    EXPECT_EQ(cluster_name(), chosen);
}

TEST(Control, TheLastOneOutRemovesTheDirectoryUnlessKept) {
    const std::string name = "test-kept-" + std::to_string(getpid());
    std::string directory;
    {
        Control control(name);
        directory = control.directory();
        EXPECT_TRUE(std::filesystem::exists(directory));
    }
    EXPECT_FALSE(std::filesystem::exists(directory));
    Control(name).keep();
    EXPECT_TRUE(std::filesystem::exists(directory));
    sweep_dead_clusters();
    EXPECT_TRUE(std::filesystem::exists(directory));
    Control(name).keep_no_longer();
    EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(Control, DirectoriesOfOtherContainersAreLeftAlone) {
    const std::string name = "test-container-" + std::to_string(getpid());
    const std::filesystem::path directory = "/dev/shm/simefa-" + name;
    std::filesystem::create_directory(directory);
    std::filesystem::create_symlink("pid:[1]", directory / "pids");
    std::fclose(std::fopen((directory / "lock").c_str(), "w"));
    sweep_dead_clusters(true);
    EXPECT_TRUE(std::filesystem::exists(directory));
    EXPECT_THROW(Control control(name), std::system_error);
    std::filesystem::remove_all(directory);
}

struct Output {
    std::string text;
    int status;
};

Output simefactl(const std::string& arguments) {
    const char* program = std::getenv("SIMEFACTL");
    if (!program) throw std::runtime_error("SIMEFACTL is not set");
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((program + (" " + arguments) + " 2>&1").c_str(), "r"),
                                               pclose);
    Output output{};
    std::array<char, 4096> part;
    while (const std::size_t length = std::fread(part.data(), 1, part.size(), pipe.get()))
        output.text.append(part.data(), length);
    output.status = pclose(pipe.release());
    return output;
}

TEST(Program, SetsAndShowsWhileTheNicsRun) {
    Pair pair;
    ASSERT_EQ(simefactl("set --nic '" + nic_name(0) + "' latency_us=1000 error_next=1").status, 0);
    ASSERT_EQ(pair.write(0, 100), 0);
    EXPECT_EQ(pair.wait_left().status, 13);
    const Output shown = simefactl("show");
    ASSERT_EQ(shown.status, 0);
    const auto json = nlohmann::json::parse(shown.text);
    const auto& nic = json.at("nics").at(0);
    EXPECT_EQ(nic.at("host"), "host0");
    EXPECT_EQ(nic.at("nic"), nic_name(0));
    EXPECT_EQ(nic.at("settings").at("latency_us"), 1000);
    EXPECT_EQ(nic.at("counters").at("errors"), 1);
    EXPECT_EQ(nic.at("counters").at("doorbells"), 1);
    EXPECT_NE(simefactl("list").text.find("latency_us=1000"), std::string::npos);
    EXPECT_EQ(simefactl("reset").status, 0);
    EXPECT_EQ(simefactl("list").text.find("latency_us"), std::string::npos);
    EXPECT_EQ(simefactl("sweep --all").status, 0);
}

TEST(Program, CountsWhatItSweeps) {
    const std::string name = "test-swept-" + std::to_string(getpid());
    // Tests beside this one may sweep what is kept for nobody.
    bool counted = false;
    for (int i = 0; i < 10 && !counted; ++i) {
        ASSERT_EQ(simefactl("--namespace " + name + " set latency_us=1").status, 0);
        EXPECT_EQ(simefactl("--namespace " + name + " sweep").text.find("1 cluster"), std::string::npos);
        const Output swept = simefactl("--namespace " + name + " sweep --all");
        EXPECT_EQ(swept.status, 0);
        EXPECT_FALSE(std::filesystem::exists("/dev/shm/simefa-" + name));
        counted = swept.text.find("\n0 clusters") == std::string::npos;
    }
    EXPECT_TRUE(counted);
    EXPECT_EQ(simefactl("--namespace " + name + " sweep").text.find("0 files of dead processes removed\n"),
              0u);
    EXPECT_FALSE(std::filesystem::exists("/dev/shm/simefa-" + name)) << "who sweeps makes nothing";
}

TEST(Program, CountsTheFilesOfTheDead) {
    const std::string name = "test-dead-" + std::to_string(getpid());
    const Control control(name);
    std::fclose(std::fopen((control.directory() + "/process-0000000000000001-0-0").c_str(), "w"));
    EXPECT_EQ(simefactl("--namespace " + name + " sweep").text.find("1 file of dead processes removed\n"),
              0u);
}

TEST(Program, SaysWhatIsWrong) {
    const Output output = simefactl("set speed=9");
    EXPECT_NE(output.status, 0);
    EXPECT_NE(output.text.find("no setting \"speed\""), std::string::npos);
    EXPECT_NE(output.text.find("simefactl: "), std::string::npos);
    for (const char* usage : {"", "foo", "set", "list --nic"}) {
        const Output refused = simefactl(usage);
        EXPECT_EQ(WEXITSTATUS(refused.status), 2) << usage;
        EXPECT_EQ(refused.text.find("simefactl: "), 0u) << refused.text;
    }
    EXPECT_NE(simefactl("--namespace ../x list").text.find("--namespace: up to 64 letters"),
              std::string::npos);
    EXPECT_NE(simefactl("settings").text.find("rate_gbps"), std::string::npos);
    for (const char* lost : {"settings", "show", "--help"})
        EXPECT_NE(simefactl(lost + std::string(" >/dev/full")).status, 0) << lost;
}

}  // namespace
}  // namespace simefa::test
