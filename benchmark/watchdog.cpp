// The watchdog is an interval timer and a signal handler that only writes and exits.
#include "watchdog.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace railyard::bench {

namespace {

constexpr std::string_view speaker = "\nrailyard-bench: ";
char last_words[320];
std::size_t last_words_length = 0;

struct LastDocument {
    int descriptor = -1;
    std::string head;
};
/// One is in use while the other one is written anew: the timer may run out at any time.
LastDocument documents[2];
std::atomic<const LastDocument*> last_document{nullptr};

void write_all(int descriptor, const char* text, std::size_t length) noexcept {
    while (length > 0) {
        const ssize_t written = write(descriptor, text, length);
        if (written <= 0) return;
        text += written;
        length -= static_cast<std::size_t>(written);
    }
}

void write_last_document() noexcept {
    const LastDocument* const document = last_document;
    if (document == nullptr || document->head.empty()) return;
    char error[sizeof(last_words)];
    std::size_t length = 0;
    for (std::size_t i = speaker.size(); i + 1 < last_words_length; ++i) {
        const char c = last_words[i];
        error[length++] = c == '"' || c == '\\' ? '\'' : c < ' ' ? ' ' : c;
    }
    const std::string& head = document->head;
    write_all(document->descriptor, head.data(), head.size());
    constexpr std::string_view name = ",\"error\":\"", end = "\"}\n";
    write_all(document->descriptor, name.data(), name.size());
    write_all(document->descriptor, error, length);
    write_all(document->descriptor, end.data(), end.size());
}

/// On SIGTERM libfabric's shm provider removes its files. Its handler is called here: what it passes the
/// signal on to, once it is done, would end the process by the signal, which is another status.
void clean_up_as_on_sigterm() noexcept {
    struct sigaction action {};
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &blocked, nullptr) != 0 || sigaction(SIGTERM, nullptr, &action) != 0)
        return;
    siginfo_t info{};
    info.si_signo = SIGTERM;
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(SIGTERM, &info, nullptr);
    } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
        action.sa_handler(SIGTERM);
    }
}

/// Should anything here hang, a second alarm ends it.
void expire(int) {
    write_all(STDERR_FILENO, last_words, last_words_length);
    signal(SIGALRM, [](int) { _exit(1); });
    alarm(2);
    write_last_document();
    clean_up_as_on_sigterm();
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
    int length = std::snprintf(last_words, sizeof(last_words),
                               "%sstuck in %.200s: it did not come back within %.1f s; see --timeout\n",
                               speaker.data(), what, static_cast<double>(limit.count()) / 1000);
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

void set_last_document(int descriptor, std::string head) {
    LastDocument& next = documents[last_document == &documents[0] ? 1 : 0];
    next = {descriptor, std::move(head)};
    last_document = &next;
}

}  // namespace railyard::bench
