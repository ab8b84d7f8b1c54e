// A forked child of a test, watched from the parent: it must end by itself, and in time.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace railyard::test {

/// How a child ended: "exit 0", "signal 11", or "hangs".
class Child {
  public:
    enum class End { at_once, with_destructors };  ///< _exit or exit

    /// Forks. `body` returns the exit status.
    Child(End end, const std::function<int()>& body) {
        std::fflush(nullptr);
        pid_ = fork();
        if (pid_ != 0) return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int status = body();
        std::fflush(nullptr);
        if (end == End::at_once) _exit(status);
        std::exit(status);
    }
    ~Child() { kill_now(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t process() const noexcept { return pid_; }
    /// Waits; `meanwhile` is called again and again.
    std::string outcome(
        const std::function<void()>& meanwhile = [] { usleep(1000); },
        std::chrono::seconds limit = std::chrono::seconds(20)) {
        const auto end = std::chrono::steady_clock::now() + limit;
        while (std::chrono::steady_clock::now() < end) {
            int status = 0;
            if (waitpid(pid_, &status, WNOHANG) == pid_) {
                pid_ = 0;
                return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                                         : "signal " + std::to_string(WTERMSIG(status));
            }
            meanwhile();
        }
        return "hangs";
    }

  private:
    void kill_now() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

    pid_t pid_ = 0;
};

}  // namespace railyard::test
