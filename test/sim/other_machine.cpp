#include "other_machine.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "../shared_memory.h"

namespace railyard::test {
namespace {

constexpr int limit_ms = 60'000;

void write_all(int fd, const void* from, std::size_t length) {
    const auto* at = static_cast<const char*>(from);
    while (length > 0) {
        const ssize_t done = write(fd, at, length);
        if (done <= 0) throw std::runtime_error("pipe: the other process is gone");
        at += done;
        length -= static_cast<std::size_t>(done);
    }
}

void read_all(int fd, void* into, std::size_t length) {
    auto* at = static_cast<char*>(into);
    while (length > 0) {
        pollfd ready{fd, POLLIN, 0};
        if (poll(&ready, 1, limit_ms) != 1) throw std::runtime_error("pipe: the other process says nothing");
        const ssize_t done = read(fd, at, length);
        if (done <= 0) throw std::runtime_error("pipe: the other process is gone");
        at += done;
        length -= static_cast<std::size_t>(done);
    }
}

}  // namespace

void send_words(int fd, const Words& words) {
    std::string bytes;
    const auto number = [&](std::size_t value) {
        const auto word = static_cast<std::uint32_t>(value);
        bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    number(words.size());
    for (const std::string& word : words) {
        number(word.size());
        bytes += word;
    }
    write_all(fd, bytes.data(), bytes.size());
}

Words receive_words(int fd) {
    const auto number = [&] {
        std::uint32_t value = 0;
        read_all(fd, &value, sizeof(value));
        return value;
    };
    Words words(number());
    for (std::string& word : words) {
        word.resize(number());
        read_all(fd, word.data(), word.size());
    }
    return words;
}

OtherMachine::OtherMachine(const std::string& topology, const std::string& hostname, const Words& params,
                           bool progress_thread, const Words& launcher) {
    const char* program = std::getenv("RAILYARD_SIM_TARGET");
    if (!program) throw std::runtime_error("RAILYARD_SIM_TARGET is not set: run through `meson test`");
    int requests[2], answers[2];
    if (pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    Words arguments = launcher;
    arguments.insert(arguments.end(), {program, progress_thread ? "thread" : "inline"});
    arguments.insert(arguments.end(), params.begin(), params.end());
    std::vector<char*> raw;
    for (std::string& argument : arguments)
        raw.push_back(argument.data());
    raw.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(requests[0], STDIN_FILENO);
        dup2(answers[1], STDOUT_FILENO);
        setenv("HWLOC_XMLFILE", topology.c_str(), 1);
        setenv("SIMEFA_HOST", hostname.c_str(), 1);
        execvp(raw.front(), raw.data());
        _exit(127);
    }
    close(requests[0]);
    close(answers[1]);
    to_ = requests[1];
    from_ = answers[0];
    if (pid_ < 0) throw std::runtime_error("fork");
}

OtherMachine::~OtherMachine() {
    close(to_);  // it ends when nobody can ask any more
    int status = 0;
    for (int waited_ms = 0; waited_ms < limit_ms && waitpid(pid_, &status, WNOHANG) == 0; waited_ms += 10) {
        pollfd ended{from_, 0, 0};
        poll(&ended, 1, 10);
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
    close(from_);
    remove_shared_memory_of(pid_);
}

void OtherMachine::send_signal(int signal) const {
    kill(pid_, signal);
    int status = 0;
    if (signal == SIGSTOP) waitpid(pid_, &status, WUNTRACED);  // it may go on for a moment
}

Words OtherMachine::ask(const Words& request) {
    send_words(to_, request);
    Words answer = receive_words(from_);
    if (!answer.empty() && answer.front() == "error")
        throw std::runtime_error("the other machine: " + answer.at(1));
    return answer;
}

PublishedBuffer OtherMachine::make_buffer(std::size_t size, std::uint32_t seed) {
    Words answer = ask({"buffer", std::to_string(size), std::to_string(seed)});
    return {answer.at(0), std::stoull(answer.at(1)), size};
}

PublishedBuffer OtherMachine::make_gpu_buffer(std::size_t size) {
    Words answer = ask({"gpu-buffer", std::to_string(size)});
    return {answer.at(0), std::stoull(answer.at(1)), size};
}

PublishedBuffer OtherMachine::register_gpu_buffer(std::size_t size) {
    Words answer = ask({"register-gpu-buffer", std::to_string(size)});
    return {answer.at(0), std::stoull(answer.at(1)), size};
}

void OtherMachine::start_write(std::size_t buffer, const std::string& agent, const PublishedBuffer& target,
                               const std::string& message) {
    ask({"write", std::to_string(buffer), agent, target.metadata, std::to_string(target.address),
         std::to_string(target.size), message});
}

}  // namespace railyard::test
