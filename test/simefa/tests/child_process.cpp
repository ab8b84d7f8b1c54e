#include "child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace simefa::test {

void Channel::send(const std::string& text) {
    if (::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
        throw std::runtime_error("channel: send");
}

std::string Channel::receive() {
    pollfd ready{descriptor_, POLLIN, 0};
    std::string text(4096, '\0');
    const ssize_t length =
        poll(&ready, 1, 20'000) == 1 ? recv(descriptor_, text.data(), text.size(), 0) : ssize_t{-1};
    if (length <= 0) throw std::runtime_error("channel: the other process says nothing");
    text.resize(static_cast<std::size_t>(length));
    return text;
}

ChildProcess::ChildProcess(const std::function<int(Channel&)>& body) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        throw std::runtime_error("socketpair");
    pid_ = fork();
    if (pid_ == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int status = 1;
        try {
            Channel channel(ends[1]);
            status = body(channel);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "child: %s\n", error.what());
        }
        _exit(status);
    }
    close(ends[1]);
    if (pid_ < 0) throw std::runtime_error("fork");
    descriptor_ = ends[0];
    channel_ = Channel(descriptor_);
}

ChildProcess::~ChildProcess() {
    kill();
    close(descriptor_);
}

void ChildProcess::kill() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void ChildProcess::stop() noexcept {
    ::kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
}

int ChildProcess::join() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace simefa::test
