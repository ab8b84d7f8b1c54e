#include "target_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "failure.h"
#include "setup.h"
#include "target.h"
#include "watchdog.h"

namespace railyard::gpu {

namespace {

using namespace std::chrono_literals;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts)
        pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

/// Ours, with what the target has of its own in place of it.
std::vector<std::string> environment_of_target() {
    std::vector<std::string> environment = setup().target_environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const std::string name = text.substr(0, text.find('=') + 1);
        bool replaced = false;
        for (const std::string& own : setup().target_environment)
            replaced = replaced || own.starts_with(name);
        if (!replaced) environment.push_back(text);
    }
    return environment;
}

}  // namespace

bench::Options bench_options(const std::vector<std::string>& words) {
    std::vector<const char*> arguments{"railyard-bench"};
    for (const std::string& word : words)
        arguments.push_back(word.c_str());
    bench::ParsedOptions parsed = bench::parse_options(static_cast<int>(arguments.size()), arguments.data());
    if (!parsed.options) throw bench::Failure(parsed.text);
    return *parsed.options;
}

TargetProcess::TargetProcess(const std::vector<std::string>& words) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw bench::Failure(std::string("cannot create a socket pair: ") + std::strerror(errno));
    control_.emplace(host::Channel(ends[0]));
    const int theirs = fcntl(ends[1], F_DUPFD, 100);  // this one survives exec
    close(ends[1]);
    std::vector<std::string> arguments{setup().self, "--target", std::to_string(theirs)};
    arguments.insert(arguments.end(), words.begin(), words.end());
    std::vector<std::string> environment = environment_of_target();
    const int error = posix_spawn(&pid_, setup().self.c_str(), nullptr, nullptr,
                                  pointers_to(arguments).data(), pointers_to(environment).data());
    close(theirs);
    if (error != 0) throw bench::Failure("cannot start " + setup().self + ": " + std::strerror(error));
}

TargetProcess::~TargetProcess() {
    control_.reset();
    for (int i = 0; i < 500; ++i) {
        if (waitpid(pid_, nullptr, WNOHANG) == pid_) return;
        if (i == 300) kill(pid_, SIGTERM);  // libfabric's shm provider removes its files on it
        std::this_thread::sleep_for(10ms);
    }
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bench::Control TargetProcess::take_control() {
    bench::Control taken = std::move(control_.value());
    control_.reset();
    return taken;
}

int serve_as_target(int descriptor, const std::vector<std::string>& words) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int status = bench::run_target(bench_options(words), bench::Control(host::Channel(descriptor)));
    bench::disarm_watchdog();
    return status;
}

}  // namespace railyard::gpu
