// The other side of a flow in a process of its own, for tests of what becomes of one that dies, hangs or
// never answers.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "../shared_memory.h"
#include "flow_program.h"

namespace railyard::flow::test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline constexpr std::size_t ring_size = 8;
inline constexpr std::size_t grain_length = 1'000'000;

/// This program again. `serve`: a target that takes grains, `serve-slices`: of 4 slices each,
/// `serve-and-tell`: says `left`, too, when a source has. `send`: an
/// initiator to the target whose info comes on its input.
class OtherSide {
  public:
    explicit OtherSide(const char* role) {
        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
        process_ = fork();
        if (process_ < 0) throw std::runtime_error("fork");
        if (process_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(to[0], STDIN_FILENO);
            dup2(from[1], STDOUT_FILENO);
            execl("/proc/self/exe", "flow_faults", role, nullptr);
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        to_ = fdopen(to[1], "w");
        from_ = from[0];
    }
    ~OtherSide() {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        std::fclose(to_);
        close(from_);
        railyard::test::remove_shared_memory_of(process_);
    }
    OtherSide(const OtherSide&) = delete;
    OtherSide& operator=(const OtherSide&) = delete;

    void say(const std::string& line) {
        std::fprintf(to_, "%s\n", line.c_str());
        std::fflush(to_);
    }
    /// The next line; what there is of it after 20 s, or at the other side's end.
    [[nodiscard]] std::string hear() {
        const auto end = Clock::now() + std::chrono::seconds(20);
        while (heard_.find('\n') == std::string::npos) {
            const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now()).count();
            pollfd ready{from_, POLLIN, 0};
            char bytes[4096];
            if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) break;
            const ssize_t length = read(from_, bytes, sizeof(bytes));
            if (length <= 0) break;
            heard_.append(bytes, static_cast<std::size_t>(length));
        }
        const std::size_t length = heard_.find('\n');
        std::string line = heard_.substr(0, length);
        heard_.erase(0, length == std::string::npos ? length : length + 1);
        return line;
    }
    [[nodiscard]] bool says_something(milliseconds limit) const {
        pollfd ready{from_, POLLIN, 0};
        return !heard_.empty() || poll(&ready, 1, static_cast<int>(limit.count())) > 0;
    }
    void send_signal(int signal) {
        kill(process_, signal);
        if (signal == SIGSTOP) waitpid(process_, nullptr, WUNTRACED);
    }

  private:
    pid_t process_ = -1;
    FILE* to_ = nullptr;
    int from_ = -1;
    std::string heard_;
};

/// A target in a process of its own.
struct FarTarget : OtherSide {
    explicit FarTarget(const char* role = "serve") : OtherSide(role) {
        const std::string text = hear();
        EXPECT_RYF(ryf_target_info_from_string(text.c_str(), &info)) << text;
    }
    ~FarTarget() { ryf_target_info_free(info); }
    /// Grains that it has seen whole; each is a line that it says.
    void expect_grains(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i)
            take();
    }
    /// The next grain that it sees, and what its source has lost by then.
    struct Seen {
        unsigned long round = 0, lost = 0;
    };
    Seen take() {
        Seen seen;
        const std::string line = hear();
        EXPECT_EQ(std::sscanf(line.c_str(), "grain %lu %lu", &seen.round, &seen.lost), 2) << line;
        return seen;
    }
    /// Of "serve-and-tell": that a source is not connected any more. Grains are left out.
    [[nodiscard]] bool says_left(milliseconds limit) {
        for (const auto end = Clock::now() + limit; Clock::now() < end;) {
            if (says_something(milliseconds(20)) && hear() == "left") return true;
        }
        return false;
    }
    ryf_target_info* info = nullptr;
};

}  // namespace railyard::flow::test
