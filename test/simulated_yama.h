// kernel.yama.ptrace_scope=1, as Ubuntu has it, for the copies from process to process of a world of its own:
// few kernels that tests run on have Yama.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

namespace railyard::test {

/// What is asked of the kernel in there is answered here: who may copy from and to whom.
class SimulatedYama {
  public:
    /// Forks; `world` is run in the child, which ends with what it returns. While one thread runs here.
    /// The constructor throws std::runtime_error where the kernel has no filters that ask.
    explicit SimulatedYama(const std::function<int()>& world) {
        int told[2];
        if (pipe(told) != 0) throw std::runtime_error("pipe");
        world_ = fork();
        if (world_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int asked = install();
            if (write(told[1], &asked, sizeof(asked)) != sizeof(asked) || asked < 0) _exit(98);
            _exit(world());
        }
        close(told[1]);  // so that its end is heard, too
        int asked = -1;
        const bool heard = read(told[0], &asked, sizeof(asked)) == sizeof(asked);
        close(told[0]);
        const int process = static_cast<int>(syscall(SYS_pidfd_open, world_, 0));
        if (heard && asked >= 0) questions_ = static_cast<int>(syscall(SYS_pidfd_getfd, process, asked, 0));
        close(process);
        if (questions_ < 0) {
            kill(world_, SIGKILL);
            waitpid(world_, nullptr, 0);
            throw std::runtime_error("no seccomp filter that asks");
        }
    }
    ~SimulatedYama() { close(questions_); }
    SimulatedYama(const SimulatedYama&) = delete;
    SimulatedYama& operator=(const SimulatedYama&) = delete;

    /// Until the world has ended; returns its exit status, 100 for a signal.
    int run() {
        int status = 0;
        while (waitpid(world_, &status, WNOHANG) == 0) {
            pollfd question{questions_, POLLIN, 0};
            if (poll(&question, 1, 10) > 0 && (question.revents & POLLIN) != 0) answer();
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    /// Copies that were forbidden.
    [[nodiscard]] int forbidden() const noexcept { return forbidden_; }

  private:
    static int install() {
        constexpr unsigned argument = offsetof(seccomp_data, args);
        sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 4, 0),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 3, 0),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
                                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
        return static_cast<int>(
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
    }

    void answer() {
        seccomp_notif question{};
        if (ioctl(questions_, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) return;  // who asked has ended
        seccomp_notif_resp said{};
        said.id = question.id;
        const auto caller = number(question.pid, "Tgid:");
        if (question.data.nr == SYS_prctl) {
            // The other tracer there may be, one process alone, nobody here asks for.
            if (question.data.args[1] == static_cast<std::uint64_t>(PR_SET_PTRACER_ANY)) {
                open_.insert(caller);
            } else {
                open_.erase(caller);
            }
        } else if (may_reach(caller, static_cast<pid_t>(question.data.args[0]))) {
            said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        } else {
            said.error = -EPERM;
            ++forbidden_;
        }
        ioctl(questions_, SECCOMP_IOCTL_NOTIF_SEND, &said);
    }

    [[nodiscard]] bool may_reach(pid_t caller, pid_t target) const {
        if (open_.contains(target)) return true;
        for (pid_t line = target; line > 1; line = number(line, "PPid:"))
            if (line == caller) return true;
        return false;
    }

    /// Of /proc/`task`/status; 0: it has ended.
    static pid_t number(std::uint64_t task, const std::string& name) {
        std::ifstream status("/proc/" + std::to_string(task) + "/status");
        for (std::string word; status >> word;) {
            pid_t value = 0;
            if (word == name && status >> value) return value;
        }
        return 0;
    }

    pid_t world_ = 0;
    int questions_ = -1;
    std::set<pid_t> open_;
    int forbidden_ = 0;
};

}  // namespace railyard::test
