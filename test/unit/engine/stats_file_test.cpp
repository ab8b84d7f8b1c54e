#include "engine/stats_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/status.h"
#include "log_lines.h"
#include "working_directory.h"

namespace railyard {
namespace {

namespace fs = std::filesystem;

/// A directory of its own, and the log.
class StatsFileTest : public testing::Test {
  protected:
    StatsFileTest() {
        std::string name = (fs::temp_directory_path() / "stats-XXXXXX").string();
        directory_ = mkdtemp(name.data());
    }
    ~StatsFileTest() override { fs::remove_all(directory_); }
    [[nodiscard]] std::string path() const { return (directory_ / "engine.prom").string(); }
    [[nodiscard]] LiveReport read() const {
        std::ifstream file(path());
        std::stringstream text;
        text << file.rdbuf();
        return parse_live_report(text.str());
    }
    [[nodiscard]] std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(directory_))
            names.push_back(entry.path().filename());
        return names;
    }
    static LiveReport report(std::uint64_t pid) { return {"1", "alpha", 7, "tcp", pid, 0}; }

    fs::path directory_;
    test::LogLines log_;
};

TEST_F(StatsFileTest, TheNameSaysWhoseItIs) {
    const std::string pid = std::to_string(getpid());
    EXPECT_EQ(StatsFile::name("/run/a.prom", "alpha", 7), "/run/a.prom");
    EXPECT_EQ(StatsFile::name("%p-%a/%i%%.prom", "alpha", 0xabc), pid + "-alpha/0000000000000abc%.prom");
    EXPECT_EQ(StatsFile::name("%a", "../../etc/pass wd\n", 7), "_._.._etc_pass_wd_");
    EXPECT_EQ(StatsFile::name("%a", "..", 7), "_.");
    EXPECT_EQ(StatsFile::name("%a", std::string(1000, 'x'), 7), std::string(64, 'x'));
    for (const char* bad : {"%", "a%", "%x", "%%%", "%P"}) {
        try {
            static_cast<void>(StatsFile::name(bad, "alpha", 7));
            ADD_FAILURE() << bad;
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), Status::invalid_param);
            EXPECT_NE(std::string(error.what()).find("stats_file"), std::string::npos);
        }
    }
}

TEST_F(StatsFileTest, IsThereFromTheFirstWriteToTheEnd) {
    {
        StatsFile file(path(), "alpha", 7);
        EXPECT_TRUE(files().empty());
        EXPECT_TRUE(file.due(0));
        file.write(report(1), 100);
        EXPECT_EQ(read().pid, 1u);
        EXPECT_FALSE(file.due(100 + StatsFile::interval_ns - 1));
        EXPECT_TRUE(file.due(100 + StatsFile::interval_ns));
        file.write(report(2), 200);
        EXPECT_EQ(read().pid, 2u);
        EXPECT_EQ(files(), std::vector<std::string>{"engine.prom"});
        struct stat status {};
        ASSERT_EQ(stat(path().c_str(), &status), 0);
        EXPECT_EQ(
            status.st_mode & 0444, 0444u & ~[] {
                const mode_t mask = umask(0);
                umask(mask);
                return mask;
            }());
    }
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(log_.count(), 0);
}

/// Who has opened it goes on reading what it was: nobody sees half of the next one.
TEST_F(StatsFileTest, IsReplacedAsAWhole) {
    StatsFile file(path(), "alpha", 7);
    LiveReport large = report(1);
    large.peers.resize(1000, {"beta", 9});
    file.write(large, 0);
    std::ifstream old(path());
    file.write(report(2), 0);
    std::stringstream text;
    text << old.rdbuf();
    EXPECT_EQ(parse_live_report(text.str()).pid, 1u);
    EXPECT_EQ(read().pid, 2u);
}

TEST_F(StatsFileTest, AFailureIsSaidOnceAndTriedAgain) {
    const fs::path deeper = directory_ / "deeper";
    StatsFile file((deeper / "engine.prom").string(), "alpha", 7);
    for (int i = 0; i < 5; ++i)
        file.write(report(1), 0);
    const auto logged = log_.all();
    ASSERT_EQ(logged.size(), 1u);
    for (const char* part : {"stats_file", "deeper/engine.prom", "No such file or directory", "writable"})
        EXPECT_NE(logged[0].find(part), std::string::npos) << logged[0];
    EXPECT_FALSE(file.due(StatsFile::interval_ns - 1)) << "not more often than when it works";
    fs::create_directory(deeper);
    file.write(report(1), 0);
    EXPECT_TRUE(fs::exists(file.path()));
    EXPECT_EQ(log_.count(), 1);
    fs::remove_all(deeper);
    file.write(report(1), 0);
    EXPECT_EQ(log_.count(), 2) << "another failure, another line";
}

TEST_F(StatsFileTest, AFailureAtTheLastStepLeavesNothingBehind) {
    // A directory in the file's place: the last step fails.
    fs::create_directory(path());
    {
        StatsFile file(path(), "alpha", 7);
        file.write(report(1), 0);
        EXPECT_EQ(files(), std::vector<std::string>{"engine.prom"}) << "the temporary file is left";
        EXPECT_EQ(log_.count(), 1);
    }
    EXPECT_TRUE(fs::is_directory(path())) << "took away what it had not written";
}

/// Each says once who the other one is; the first to end leaves the other's file.
TEST_F(StatsFileTest, TwoEnginesOfOneFileAreTold) {
    StatsFile alpha(path(), "alpha", 7);
    {
        StatsFile beta(path(), "beta", 8);
        alpha.write(report(1), 0);
        beta.write({"1", "beta", 8, "tcp", 4711, 0}, 0);
        EXPECT_EQ(log_.count(), 0) << "it may be a leftover";
        for (int i = 0; i < 3; ++i) {
            alpha.write(report(1), 0);
            beta.write({"1", "beta", 8, "tcp", 4711, 0}, 0);
        }
        const auto logged = log_.all();
        ASSERT_EQ(logged.size(), 2u);
        for (const char* part : {"alpha", "engine.prom", "agent beta in process 4711", "%p", "%a", "%i"})
            EXPECT_NE(logged[0].find(part), std::string::npos) << logged[0];
        EXPECT_NE(logged[1].find("agent alpha in process 1,"), std::string::npos) << logged[1];
        alpha.write(report(1), 0);
    }
    EXPECT_EQ(read().agent, "alpha") << "took away what the other had written";
}

/// Of whoever was killed, even while a process of that number lives.
TEST_F(StatsFileTest, ALeftoverIsReplacedWithoutAWord) {
    std::string text;
    to_prometheus({"1", "beta", 8, "tcp", static_cast<std::uint64_t>(getpid()), 0}, text);
    std::ofstream(path()) << text;
    StatsFile file(path(), "alpha", 7);
    for (int i = 0; i < 3; ++i)
        file.write(report(1), 0);
    fs::remove(path());
    file.write(report(1), 0);
    fs::last_write_time(path(), fs::file_time_type::clock::now());  // still ours
    file.write(report(1), 0);
    EXPECT_EQ(log_.count(), 0);
}

TEST_F(StatsFileTest, AFileThatIsNoReportIsNamedSo) {
    StatsFile file(path(), "alpha", 7);
    file.write(report(1), 0);
    std::ofstream(path()) << "mine";
    file.write(report(1), 0);
    ASSERT_EQ(log_.count(), 1);
    EXPECT_NE(log_.all()[0].find("something that is no engine"), std::string::npos);
}

/// Somebody's link in its place is not followed: what it names stays as it is.
TEST_F(StatsFileTest, ALinkInItsPlaceIsReplaced) {
    const fs::path other = directory_ / "other";
    std::ofstream(other) << "mine";
    fs::create_symlink(other, path());
    StatsFile file(path(), "alpha", 7);
    file.write(report(3), 0);
    EXPECT_EQ(read().pid, 3u);
    EXPECT_FALSE(fs::is_symlink(path()));
    EXPECT_EQ(fs::file_size(other), 4u);
}

/// Daemons change to the root once they have begun.
TEST_F(StatsFileTest, ARelativeNameStaysWhereItBegan) {
    const test::WorkingDirectory started(directory_);
    {
        StatsFile file("engine.prom", "alpha", 7);
        const test::WorkingDirectory later("/");
        EXPECT_EQ(file.path(), path());
        file.write(report(3), 0);
        EXPECT_EQ(read().pid, 3u);
    }
    EXPECT_TRUE(files().empty());
}

TEST_F(StatsFileTest, ARelativeNameNeedsAWorkingDirectory) {
    const fs::path gone = directory_ / "gone";
    fs::create_directory(gone);
    const test::WorkingDirectory started(gone);
    fs::remove(gone);
    try {
        StatsFile file("engine.prom", "alpha", 7);
        ADD_FAILURE() << file.path();
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        EXPECT_NE(std::string(error.what()).find("stats_file \"engine.prom\""), std::string::npos)
            << error.what();
    }
    StatsFile file(path(), "alpha", 7);
    file.write(report(3), 0);
    EXPECT_EQ(read().pid, 3u);
}

/// The kernel would end the process with SIGXFSZ.
TEST_F(StatsFileTest, AReportThatIsLongerThanAFileMayBeIsRefusedAsThat) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{16, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        StatsFile file(path(), "alpha", 7);
        file.write(report(1), 0);
        _exit(test::LogLines::contain("File too large") ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace railyard
