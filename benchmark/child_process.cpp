// fork, and what it takes to leave nothing behind.
#include "child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "failure.h"

namespace railyard::bench {

ChildProcess::ChildProcess(std::string name) : name_(std::move(name)) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw Failure("cannot fork " + name_ + ": " + std::strerror(errno));
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // it died in between
}

ChildProcess::~ChildProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);  // libfabric's shm provider removes its files on it
    for (int i = 0; i < 100; ++i) {
        if (waitpid(pid_, nullptr, WNOHANG) == pid_) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bool ChildProcess::join(std::chrono::milliseconds limit, bool verbose) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (pid_ > 0) {
        int status = 0;
        pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_) {
            pid_ = -1;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
            if (WIFSIGNALED(status)) {
                std::fprintf(stderr, "railyard-bench: %s was killed by signal %d\n", name_.c_str(),
                             WTERMSIG(status));
            } else if (verbose) {
                std::fprintf(stderr, "railyard-bench: %s ended with status %d\n", name_.c_str(),
                             WEXITSTATUS(status));
            }
            return false;
        }
        if (std::chrono::steady_clock::now() > end) {
            std::fprintf(stderr, "railyard-bench: %s did not end within %.1f s: killed\n", name_.c_str(),
                         static_cast<double>(limit.count()) / 1000);
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace railyard::bench
