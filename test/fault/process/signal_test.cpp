// Signals without SA_RESTART, about one in a millisecond on each thread: nothing is lost, nothing stops.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "own_threads.h"
#include "traffic.h"

/// For ThreadSanitizer, which does not look into libfabric and so does not see that it closed the descriptor
/// whose number the directory has now.
extern "C" const char* __tsan_default_suppressions();  // NOLINT: the sanitizer's name
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
    return "race:closedir\n";
}

namespace railyard::test {
namespace {

std::atomic<std::uint64_t> handled{0};

void count_signal(int) {
    handled.fetch_add(1, std::memory_order_relaxed);
}

/// SIGALRM to the process by a timer, SIGUSR1 to every thread of it by one that goes through them.
class SignalStorm {
  public:
    SignalStorm() {
        handled.store(0);
        struct sigaction action {};
        action.sa_handler = count_signal;  // no SA_RESTART: calls come back with EINTR
        sigaction(SIGALRM, &action, nullptr);
        sigaction(SIGUSR1, &action, nullptr);
        itimerval every{{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &every, nullptr);
        thread_ = std::thread([this] { run(); });
    }
    ~SignalStorm() {
        stop_.store(true);
        thread_.join();
        itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        // Some may still be on their way to threads that have not run since.
        signal(SIGALRM, SIG_IGN);
        signal(SIGUSR1, SIG_IGN);
    }
    SignalStorm(const SignalStorm&) = delete;
    SignalStorm& operator=(const SignalStorm&) = delete;

  private:
    void run() {
        const auto self = static_cast<pid_t>(syscall(SYS_gettid));
        while (!stop_.load()) {
            for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
                const pid_t thread = std::stoi(entry.path().filename());
                if (thread != self) syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
            }
            usleep(1000);
        }
    }
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// ThreadSanitizer keeps signals until the thread calls something that it intercepts; once in a while it
/// keeps all of them until the end of the process.
bool held_back() {
#ifdef __SANITIZE_THREAD__
    return handled.load() == 0;
#else
    return false;
#endif
}

class SignalTest : public testing::TestWithParam<Fabric> {};
class SignalledThreadTest : public testing::TestWithParam<Fabric> {};

TEST_P(SignalTest, TransfersAndNotificationsAreNotInterrupted) {
    Traffic traffic(GetParam(), std::size_t{1} << 20);
    const SignalStorm storm;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    int rounds = 0;
    for (; rounds < 10 || std::chrono::steady_clock::now() < end; ++rounds)
        traffic.round();
    std::vector<Notification> more;
    traffic.pair.b->take_notifications(more);
    EXPECT_TRUE(more.empty()) << "each exactly once";
    if (held_back()) GTEST_SKIP() << "ThreadSanitizer handed no signal over";
    EXPECT_GE(handled.load(), 100u);
}

TEST_P(SignalTest, EnginesBeginAndEndUnderSignals) {
    const SignalStorm storm;
    // ThreadSanitizer hands signals over when it likes: once in a while none in three turns.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (int turn = 0; turn < 3 || (handled.load() == 0 && std::chrono::steady_clock::now() < limit);
         ++turn) {
        Traffic traffic(GetParam(), std::size_t{1} << 20);
        traffic.round();
    }
    if (held_back()) GTEST_SKIP() << "ThreadSanitizer handed no signal over";
    EXPECT_GT(handled.load(), 0u);
}

/// What a program holds back to wait for it, and what is to interrupt a wait of its own, is not for ours.
TEST_P(SignalledThreadTest, LeavesSignalsToTheProgram) {
    Traffic traffic(GetParam(), std::size_t{8} << 20);
    traffic.round();
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    struct sigaction action {
    }, usual{};
    action.sa_handler = count_signal;
    sigaction(SIGUSR2, &action, &usual);
    handled.store(0);
    kill(getpid(), SIGUSR2);
    const timespec limit{10, 0};
    EXPECT_EQ(sigtimedwait(&held, nullptr, &limit), SIGUSR2);
    EXPECT_EQ(handled.load(), 0u) << "another thread had it";
    sigaction(SIGUSR2, &usual, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const std::vector<OwnThread> threads = own_threads("railyard-");
    EXPECT_GE(threads.size(), 2u) << "one of each side, at least";
    for (const OwnThread& thread : threads) {
        std::uint64_t blocked = 0;
        const auto blocks = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
        const auto look = [&] {
            const std::string status = thread.status("SigBlk:");
            if (status.empty()) return blocked = UINT64_MAX, true;  // it has ended
            blocked = std::stoull(status, nullptr, 16);
            return !blocks(SIGSEGV) && !blocks(SIGBUS) && !blocks(SIGPROF);
        };
        EXPECT_TRUE(traffic.pair.until(look)) << thread.name;  // the C library blocks all now and then
        EXPECT_TRUE(blocks(SIGTERM) && blocks(SIGCHLD) && blocks(SIGUSR1)) << thread.name;
    }
}

/// The threads of both sides are asleep, and are woken by signals all the time, when the work comes; nobody
/// calls in until it is done.
TEST_P(SignalledThreadTest, GoesOn) {
    Traffic traffic(GetParam(), std::size_t{8} << 20);
    traffic.round();
    const SignalStorm storm;
    for (int turn = 0; turn < 5; ++turn) {
        usleep(100'000);
        const Status posted = traffic.post();
        for (int look = 0; look < 400 && traffic.target.bytes != traffic.source.bytes; ++look)
            usleep(25'000);
        ASSERT_TRUE(traffic.target.bytes == traffic.source.bytes) << turn;
        traffic.finish(posted);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, SignalTest, testing::ValuesIn(process_fabrics()), fabric_name);

std::vector<Fabric> with_thread() {
    std::vector<Fabric> all = fabrics({Fabric{"tcp", 2, true}, Fabric{"shm", 1, true}});
    std::erase_if(all, [](const Fabric& fabric) { return !fabric.progress_thread; });
    return all;
}
INSTANTIATE_TEST_SUITE_P(Fabrics, SignalledThreadTest, testing::ValuesIn(with_thread()), fabric_name);

}  // namespace
}  // namespace railyard::test
