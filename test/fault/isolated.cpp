#include "isolated.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace railyard::fault {

struct Arena::Shared {
    Counts counts;
    Wrong wrong;
    char text[4000];
};

namespace {

/// Of a whole schedule, beyond the limit of each wait: for what hangs elsewhere.
constexpr int grace_ms = 60'000;

std::string cluster_of(pid_t process) {
    return "fault-campaign-" + std::to_string(process);
}

void set_environment(const Schedule& schedule) {
    const char* picture = std::getenv("HWLOC_XMLFILE");
    const std::filesystem::path folder = std::filesystem::path(picture ? picture : "").parent_path();
    setenv("HWLOC_XMLFILE", (folder / (schedule.machine + ".xml")).c_str(), 1);
    setenv("FI_PROVIDER", "efa", 1);
    setenv("SIMEFA_SEED", std::to_string(schedule.seed).c_str(), 1);
    setenv("SIMEFA_NAMESPACE", cluster_of(getpid()).c_str(), 1);
}

template <std::size_t size>
void put(char (&room)[size], const char* text) {
    std::snprintf(room, size, "%s", text);
}

std::string stacks_of(pid_t process) {
    const std::string command = "timeout 60 gdb -batch -nx -iex 'set debuginfod enabled off' -p " +
                                std::to_string(process) +
                                " -ex 'set print thread-events off' -ex 'thread apply all bt 40' 2>&1";
    std::string stacks;
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return "no stacks: gdb cannot be started\n";
    char room[4096];
    while (std::size_t count = std::fread(room, 1, sizeof(room), pipe))
        stacks.append(room, count);
    pclose(pipe);
    return stacks;
}

/// True: it has said that it hangs, or said nothing for too long.
bool hangs(int from_child, int limit_ms) {
    pollfd ready{from_child, POLLIN, 0};
    if (poll(&ready, 1, limit_ms) != 1) return true;
    char byte = 0;
    return read(from_child, &byte, 1) == 1;
}

}  // namespace

Arena::Arena() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    shared_ = new (memory) Shared{};
}

Arena::~Arena() {
    munmap(shared_, sizeof(Shared));
}

Counts& Arena::counts() noexcept {
    return shared_->counts;
}

Verdict play_isolated(const Schedule& schedule, const PlayOptions& options, Arena& arena) {
    Arena::Shared& shared = *arena.shared_;
    shared.wrong = Wrong::none;
    shared.text[0] = '\0';
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // for gdb
        close(ends[0]);
        set_environment(schedule);
        const auto wrong = [&](Wrong what, const char* text) {
            shared.wrong = what;
            put(shared.text, text);
        };
        try {
            Player player(schedule, options, shared.counts, [&](const Failure& failure) {
                wrong(failure.wrong, failure.what());
                const char byte = 'h';
                if (write(ends[1], &byte, 1) == 1) sleep(120);  // to be looked at, and ended
            });
            player.play();
        } catch (const Failure& failure) {
            wrong(failure.wrong, failure.what());
        } catch (const std::exception& error) {
            wrong(Wrong::exception, error.what());
        }
        std::exit(0);
    }
    close(ends[1]);
    Verdict verdict;
    const bool hung = hangs(ends[0], static_cast<int>(options.limit.count()) * 2 + grace_ms);
    if (hung) {
        verdict.stacks = stacks_of(child);
        kill(child, SIGKILL);
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    verdict.wrong = shared.wrong;
    verdict.text = shared.text;
    const std::filesystem::path left = "/dev/shm/simefa-" + cluster_of(child);
    if (hung) {
        if (verdict.wrong == Wrong::none)
            verdict = {Wrong::hang, "no end of a wait inside the engine", verdict.stacks};
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                    : "exit status " + std::to_string(WEXITSTATUS(status));
        verdict = {
            Wrong::crash, "ended with " + how + (verdict.text.empty() ? "" : " after: ") + verdict.text, {}};
    } else if (verdict.wrong == Wrong::none && std::filesystem::exists(left)) {
        verdict = {Wrong::crash, "left " + left.string() + " behind", {}};
    }
    std::error_code ignored;
    std::filesystem::remove_all(left, ignored);
    ++shared.counts.wrongs[static_cast<std::size_t>(verdict.wrong)];
    return verdict;
}

}  // namespace railyard::fault
