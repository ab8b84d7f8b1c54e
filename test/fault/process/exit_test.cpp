// Programs that end with engines alive: within 5 s, with their own status, and without a crash.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>

#include "engine_pair.h"
#include "sanitized.h"
#include "shared_memory.h"

extern char** environ;

namespace railyard::test {
namespace {

constexpr auto limit = std::chrono::seconds(sanitized ? 30 : 5);

std::string word(const Fabric& fabric) {
    return fabric.provider + ":" + std::to_string(fabric.rails) +
           (fabric.progress_thread ? ":thread" : ":inline");
}

/// How a program ended, counted from when it said that it leaves: "exit 7", "signal 11" or "hangs".
std::string outcome_of(pid_t pid, int said) {
    pollfd leaving{said, POLLIN, 0};
    char word = 0;
    std::string outcome;
    if (poll(&leaving, 1, 60'000) != 1 || read(said, &word, 1) < 0) outcome = "hangs before it leaves";
    const auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (outcome.empty()) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                                     : "signal " + std::to_string(WTERMSIG(status));
        }
        if (std::chrono::steady_clock::now() > end) outcome = "hangs";
        usleep(2000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return outcome;
}

pid_t& last_program() {
    static pid_t process;
    return process;
}

std::set<std::string> shared_memory() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
        names.insert(entry.path().filename());
    return names;
}

std::string run_case(const std::string& name, const Fabric& fabric) {
    const char* const program = std::getenv("RAILYARD_EXIT_CASE");
    if (!program) return "RAILYARD_EXIT_CASE is not set: run through `meson test`";
    int said[2];
    if (pipe2(said, O_CLOEXEC) != 0) return "no pipe";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, said[1], STDOUT_FILENO);
    std::string first = program, second = name, third = word(fabric);
    char* arguments[] = {first.data(), second.data(), third.data(), nullptr};
    pid_t pid = 0;
    const int error = posix_spawn(&pid, program, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    last_program() = pid;
    close(said[1]);
    const std::string outcome = error == 0 ? outcome_of(pid, said[0]) : std::strerror(error);
    close(said[0]);
    return outcome;
}

using Case = std::tuple<const char*, Fabric>;

class ExitTest : public testing::TestWithParam<Case> {};

TEST_P(ExitTest, EndsInTimeWithItsStatus) {
    const auto& [name, fabric] = GetParam();
    const std::set<std::string> before = shared_memory();
    EXPECT_EQ(run_case(name, fabric), "exit 7");
    for (const std::string& file : shared_memory())
        EXPECT_TRUE(before.contains(file) || !is_shared_memory_of(last_program(), file))
            << file << " is left";
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    std::string name = std::string(std::get<0>(info.param)) + "_" + word(std::get<1>(info.param));
    for (char& letter : name) {
        if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
    }
    return name;
}

INSTANTIATE_TEST_SUITE_P(Programs, ExitTest,
                         testing::Combine(testing::Values("static", "static-made-late", "leak",
                                                          "exit-in-flight", "exit-from-another-thread",
                                                          "return-under-a-working-thread", "quick-exit"),
                                          testing::ValuesIn(fabrics({Fabric{"tcp", 2, true},
                                                                     Fabric{"tcp", 1, false},
                                                                     Fabric{"shm", 1, true}}))),
                         case_name);

}  // namespace
}  // namespace railyard::test
