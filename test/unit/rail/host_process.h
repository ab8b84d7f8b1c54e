// A forked process with a host rail and a registered buffer, which does nothing but what it is asked to.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rail/host_rail.h"

namespace railyard {

/// While one thread runs here. The constructor throws std::runtime_error when the child does not answer.
class OtherProcess {
  public:
    /// After end_main_thread another thread goes on.
    enum Command : char {
        contents,
        deregister,
        register_again,
        unmap,
        close_rail,
        end_main_thread,
        forbid_tracers  ///< kernel.yama.ptrace_scope
    };

    /// In memory of `backing`; -1: as it comes.
    explicit OtherProcess(std::size_t size, char fill = '.', int backing = -1) : size_(size) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error("pipe");
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(to[1]);
            close(from[0]);
            serve(to[0], from[1], {size, fill, backing});
            _exit(0);
        }
        close(to[0]);
        close(from[1]);
        to_ = to[1];
        from_ = from[0];
        card = receive(number());
        address = number();
        key = number();
    }
    ~OtherProcess() {
        end(SIGKILL);
        close(to_);
        close(from_);
    }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    [[nodiscard]] std::string memory() { return ask(contents, size_); }
    /// Returns the key that holds from now on.
    std::uint64_t change(Command command) {
        static_cast<void>(ask(command, 0));
        return number();
    }
    void send_signal(int signal) const {
        kill(pid_, signal);
        if (signal == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);
    }
    void end(int signal) {
        if (pid_ <= 0) return;
        kill(pid_, signal);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    std::string card;
    std::uint64_t address = 0, key = 0;

  private:
    static void put(int fd, const void* data, std::size_t size) {
        for (std::size_t done = 0; done < size;) {
            const ssize_t written = write(fd, static_cast<const char*>(data) + done, size - done);
            if (written <= 0) _exit(1);
            done += static_cast<std::size_t>(written);
        }
    }
    struct Memory {
        std::size_t size;
        char fill;
        int backing;
    };
    static void serve(int in, int out, Memory made) {
        const std::size_t size = made.size;
        auto rail = std::make_unique<HostRail>();
        auto* const memory = static_cast<char*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 made.backing < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, made.backing, 0));
        if (memory == MAP_FAILED) _exit(1);
        std::fill(memory, memory + size, made.fill);
        const auto place = reinterpret_cast<std::uint64_t>(memory);
        RegisteredMemory region = rail->register_memory({place, size, true});
        const std::uint64_t length = rail->address().size();
        put(out, &length, sizeof(length));
        put(out, rail->address().data(), length);
        put(out, &place, sizeof(place));
        put(out, &region.key, sizeof(region.key));
        answer(in, [&](char command) {
            if (command == contents) {
                put(out, memory, size);
                return;
            }
            if (command == deregister) rail->deregister_memory(region);
            if (command == register_again) region = rail->register_memory({place, size, true});
            if (command == unmap) munmap(memory, size);
            if (command == forbid_tracers) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
            if (command == close_rail) {
                region = {};
                rail.reset();
            }
            put(out, &region.key, sizeof(region.key));
        });
    }
    template <typename Obey>
    static void answer(int in, const Obey& obey) {
        for (char command; read(in, &command, 1) == 1;) {
            if (command == end_main_thread) {
                std::thread([&] {
                    obey(end_main_thread);
                    answer(in, obey);
                    _exit(0);
                }).detach();
                syscall(SYS_exit, 0);  // leaves its stack as it is, unlike pthread_exit
            }
            obey(command);
        }
    }
    std::string receive(std::size_t size) const {
        std::string bytes(size, '\0');
        for (std::size_t done = 0; done < size;) {
            const ssize_t got = read(from_, bytes.data() + done, size - done);
            if (got <= 0) throw std::runtime_error("the other process does not answer");
            done += static_cast<std::size_t>(got);
        }
        return bytes;
    }
    std::uint64_t number() const {
        std::uint64_t value = 0;
        receive(sizeof(value)).copy(reinterpret_cast<char*>(&value), sizeof(value));
        return value;
    }
    std::string ask(char command, std::size_t size) const {
        if (write(to_, &command, 1) != 1) throw std::runtime_error("the other process has gone");
        return receive(size);
    }

    const std::size_t size_;
    pid_t pid_ = 0;
    int to_ = -1, from_ = -1;
};

}  // namespace railyard
