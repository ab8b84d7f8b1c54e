// The watchdog is an interval timer and a signal handler that only writes and exits.
#include "watchdog.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace railyard::bench {

namespace {

char last_words[320];
std::size_t last_words_length = 0;

/// SIGTERM first: libfabric's shm provider removes its files on it. Should that hang, a second alarm ends it.
void expire(int) {
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, last_words, last_words_length);
    signal(SIGALRM, SIG_DFL);
    alarm(2);
    raise(SIGTERM);
    _exit(1);
}

void set_timer(std::chrono::milliseconds limit) noexcept {
    itimerval timer{};
    timer.it_value.tv_sec = limit.count() / 1000;
    timer.it_value.tv_usec = static_cast<suseconds_t>(limit.count() % 1000) * 1000;
    setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

void arm_watchdog(std::chrono::milliseconds limit, const char* what) noexcept {
    disarm_watchdog();
    int length = std::snprintf(
        last_words, sizeof(last_words),
        "\nrailyard-bench: stuck in %.200s: it did not come back within %.1f s; see --timeout\n", what,
        static_cast<double>(limit.count()) / 1000);
    last_words_length = length < 0 ? 0 : std::strlen(last_words);
    struct sigaction action {};
    action.sa_handler = expire;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGALRM, &action, nullptr);
    set_timer(limit);
}

void disarm_watchdog() noexcept {
    set_timer(std::chrono::milliseconds(0));
}

}  // namespace railyard::bench
