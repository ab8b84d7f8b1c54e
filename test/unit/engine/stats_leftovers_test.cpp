// What killed processes have left of their statistics, and what is not to be taken for it.
#include "engine/stats_leftovers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "engine/stats_file.h"
#include "log_lines.h"

namespace railyard {
namespace {

namespace fs = std::filesystem;

/// A process with an engine's file of its own, which lives until it is killed.
class Writer {
  public:
    /// `child` runs there once the file is written.
    explicit Writer(
        const std::string& pattern, const std::function<void()>& child = [] {}) {
        int ends[2];
        if (pipe(ends) != 0) throw std::runtime_error("pipe");
        pid_ = fork();
        if (pid_ == 0) {
            StatsFile file(pattern, "alpha", 7);
            file.write({"1", "alpha", 7, "tcp", static_cast<std::uint64_t>(getpid()), 0}, 0);
            file.write({"1", "alpha", 7, "tcp", static_cast<std::uint64_t>(getpid()), 0}, 0);
            child();
            if (write(ends[1], "x", 1) != 1) _exit(1);
            for (;;)
                pause();
        }
        close(ends[1]);
        char ready = 0;
        EXPECT_EQ(read(ends[0], &ready, 1), 1);
        close(ends[0]);
    }
    ~Writer() { kill(); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void kill() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

  private:
    pid_t pid_ = 0;
};

class StatsLeftoversTest : public testing::Test {
  protected:
    StatsLeftoversTest() {
        std::string name = (fs::temp_directory_path() / "stats-XXXXXX").string();
        directory_ = mkdtemp(name.data());
        if (lock_line().empty()) ADD_FAILURE() << "the kernel does not tell which boot this is";
    }
    ~StatsLeftoversTest() override { fs::remove_all(directory_); }
    [[nodiscard]] std::string pattern() const { return (directory_ / "%p-%a.prom").string(); }
    [[nodiscard]] fs::path file_of(pid_t pid) const {
        return directory_ / (std::to_string(pid) + "-alpha.prom");
    }
    /// One that a process was killed over.
    fs::path leftover() {
        Writer writer(pattern());
        const fs::path path = file_of(writer.pid());
        writer.kill();
        EXPECT_TRUE(fs::exists(path));
        return path;
    }
    void start_another() const { const StatsFile file(pattern(), "beta", 8); }
    static std::string text_of(const fs::path& path) {
        std::stringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    }

    fs::path directory_;
    test::LogLines log_;
};

TEST_F(StatsLeftoversTest, GoWhenAnotherEngineStarts) {
    const fs::path first = leftover(), second = leftover();
    start_another();
    EXPECT_FALSE(fs::exists(first));
    EXPECT_FALSE(fs::exists(second));
    EXPECT_TRUE(fs::is_empty(directory_));
    EXPECT_EQ(log_.count(), 0);
}

TEST_F(StatsLeftoversTest, FilesOfTheLivingStay) {
    Writer writer(pattern());
    StatsFile here(pattern(), "here", 9);
    here.write({"1", "here", 9, "tcp", static_cast<std::uint64_t>(getpid()), 0}, 0);
    start_another();
    EXPECT_TRUE(fs::exists(file_of(writer.pid())));
    EXPECT_TRUE(fs::exists(here.path()));
}

/// Nobody can tell it from its parent, whose lock it has: it is left, rather than one of the living taken.
TEST_F(StatsLeftoversTest, AForkedChildKeepsItsParentsFile) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    Writer writer(pattern(), [&] {
        if (fork() != 0) return;
        close(ends[1]);
        char end = 0;
        _exit(read(ends[0], &end, 1) == 0 ? 0 : 1);
    });
    close(ends[0]);
    const fs::path path = file_of(writer.pid());
    writer.kill();
    start_another();
    EXPECT_TRUE(fs::exists(path));
    close(ends[1]);  // the child ends
    for (int i = 0; i < 10'000 && fs::exists(path); ++i) {
        start_another();
        usleep(1000);
    }
    EXPECT_FALSE(fs::exists(path));
}

/// By whatever one thing it may be another's.
TEST_F(StatsLeftoversTest, WhatIsNotCertainlyOneStays) {
    const fs::path path = leftover();
    const std::string text = text_of(path), line = lock_line();
    ASSERT_TRUE(text.starts_with(line)) << text;
    const auto stays = [&](const fs::path& where, const std::string& content, const char* what) {
        std::ofstream(where) << content;
        start_another();
        EXPECT_EQ(text_of(where), content) << what;
        fs::remove(where);
    };
    std::string other_boot = text;
    other_boot[line.size() - 2] = other_boot[line.size() - 2] == '0' ? '1' : '0';
    stays(path, other_boot, "of another host, or another boot of this one");
    stays(path, text.substr(line.size()), "of a version without locks");
    stays(path, line + "mine\n", "no report");
    stays(path, text.substr(0, text.size() - 6), "half a report");
    stays(directory_ / "1-alpha.prom", text, "another process's name");
    stays(path.string() + ".kept", text, "another name");
    stays(directory_ / "alpha.prom", text, "another pattern's");
    const fs::path target = directory_ / "target";
    std::ofstream(target) << text;
    fs::create_symlink(target, path);
    start_another();
    EXPECT_TRUE(fs::is_symlink(path));
    EXPECT_TRUE(fs::exists(target));
}

TEST_F(StatsLeftoversTest, PatternsMakeNamesOfEveryKind) {
    for (const char* name : {"%i", "%a", "%%%p-%a%%x.prom", "engine-%p"}) {
        const std::string pattern = (directory_ / name).string();
        std::string path;
        {
            Writer writer(pattern);
            path = StatsFile::name_in(static_cast<std::uint64_t>(writer.pid()), pattern, "alpha", 7);
            EXPECT_TRUE(fs::exists(path)) << path;
        }
        EXPECT_EQ(remove_leftovers(pattern, StatsFile::name(pattern, "beta", 8)), 1u) << name;
        EXPECT_FALSE(fs::exists(path)) << path;
    }
    EXPECT_EQ(remove_leftovers("/no/such/directory/%p", "/no/such/directory/1"), 0u);
}

TEST_F(StatsLeftoversTest, ReadersPassOverTheLock) {
    StatsFile file((directory_ / "engine.prom").string(), "alpha", 7);
    file.write({"1", "alpha", 7, "tcp", 4711, 0}, 0);
    EXPECT_EQ(parse_live_report(text_of(file.path())).pid, 4711u);
}

}  // namespace
}  // namespace railyard
