#include "engine/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/shortage.h"
#include "common/signals_blocked.h"
#include "common/status.h"

namespace railyard {
namespace {

/// How long to look for more work before blocking: about what one wake-up costs.
constexpr std::uint64_t spin_ns = 20'000;
/// Callers that make this many passes while we sleep, and so often, drive the rails well enough themselves;
/// also those of whom one is at work on a rail, or was the last time and has begun another pass.
constexpr std::uint64_t driving_passes = 4;
constexpr std::uint64_t driving_interval_ns = 500'000;
/// How long to leave the rails to them: the longer they have driven, the longer, since each look takes up to
/// 0.2 ms of a core from them on a small virtual machine.
constexpr std::uint64_t driven_sleep_ns = 400'000;
constexpr std::uint64_t longest_driven_sleep_ns = 8'000'000;
constexpr std::uint64_t longest_driven_sleep_with_cpus_to_spare_ns = 1'000'000;
constexpr std::uint64_t longest_following_sleep_ns = 64'000'000;
constexpr std::uint64_t driven_share = 8;
/// What callers did so long ago says nothing of now.
constexpr std::uint64_t stale_ns = 1'000'000;
/// A pass, and the posts between two, take so long at most, where the provider copies much in them.
constexpr std::uint64_t longest_pass_ns = 100'000'000;
constexpr std::uint64_t shortest_sleep_ns = 20'000;
constexpr std::uint64_t longest_sleep_ns = 2'000'000;
/// After so long without anything, pauses grow to this: a wake-up costs up to 0.2 ms of a core on a small
/// virtual machine, whatever the program.
constexpr std::uint64_t long_idle_ns = 200'000'000;
constexpr std::uint64_t long_idle_pause_ns = 40'000'000;
/// Upper limit of one blocking wait: a lost event costs this much and no hang.
constexpr int block_limit_ms = 500;

}  // namespace

ProgressThread::ProgressThread(std::vector<Rail*> rails, std::chrono::microseconds pause,
                               CallerPasses caller_passes, Chore chore,
                               const std::atomic<std::uint64_t>* wake_at, Place place)
    : rails_(std::move(rails)),
      pause_ns_(static_cast<std::uint64_t>(pause.count()) * 1000),
      caller_passes_(std::move(caller_passes)),
      chore_(std::move(chore)),
      wake_at_(wake_at),
      company_(place.company ? *place.company : alone_),
      bit_(std::uint64_t{1} << place.index),
      longest_rest_ns_(bit_ != 1             ? longest_following_sleep_ns
                       : place.cpus_to_spare ? longest_driven_sleep_with_cpus_to_spare_ns
                                             : longest_driven_sleep_ns) {
    open_descriptors();
    try {
        const SignalsBlocked with_it;
        thread_ = std::thread([this] { run(); });
    } catch (const std::exception& error) {
        close(epoll_fd_);
        close(wake_fd_);
        if (!dynamic_cast<const std::system_error*>(&error)) throw;
        throw Error(Status::backend, std::string("progress thread: ") + error.what() +
                                         "; raise the limit of threads (`ulimit -u`, pids of the container), "
                                         "or create the engine without it");
    }
    pthread_setname_np(thread_.native_handle(), "railyard-prog");
}

void ProgressThread::stop() noexcept {
    if (!thread_.joinable()) return;
    stop_.store(true, std::memory_order_seq_cst);
    signal();
    thread_.join();
}

ProgressThread::~ProgressThread() {
    stop();
    close(epoll_fd_);
    close(wake_fd_);
}

void ProgressThread::open_descriptors() {
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    bool good = wake_fd_ >= 0 && epoll_fd_ >= 0;
    auto watch = [&](int fd) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
    };
    good = good && watch(wake_fd_);
    for (Rail* rail : rails_) {
        if (rail->needs_polling()) all_waitable_ = false;
        if (rail->wait_fd() >= 0) good = good && watch(rail->wait_fd());
    }
    if (good) return;
    const int error = errno;
    const std::string remedy = error == ENOSPC ? "; raise fs.epoll.max_user_watches" : shortage();
    if (wake_fd_ >= 0) close(wake_fd_);
    if (epoll_fd_ >= 0) close(epoll_fd_);
    throw Error(Status::backend, std::string("progress thread: ") + std::strerror(error) + remedy);
}

void ProgressThread::signal() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_fd_, &one, sizeof(one));
}

/// Once a sleep: whoever comes before it has woken up need not call again.
void ProgressThread::rouse() noexcept {
    if (company_.asleep.fetch_and(~bit_, std::memory_order_seq_cst) & bit_) signal();
}

bool ProgressThread::has_work() const noexcept {
    // A holder that has taken what was handed over says so (its load) before it lets the role go.
    return std::any_of(rails_.begin(), rails_.end(), [](const Rail* rail) {
        return rail->has_work() || rail->in_use() || rail->has_work();
    });
}

bool ProgressThread::pass() noexcept {
    bool worked = false;
    for (Rail* rail : rails_)
        worked = rail->progress(Rail::Looker::background) == Rail::Progress::worked || worked;
    return chore_() || worked;
}

bool ProgressThread::callers_drive() noexcept {
    const std::uint64_t passes = caller_passes_();
    const std::uint64_t begun = passes - std::exchange(seen_passes_, passes);
    const bool at_work = std::any_of(rails_.begin(), rails_.end(), [](Rail* rail) { return rail->in_use(); });
    const bool were_at_work = std::exchange(seen_at_work_, at_work);
    const std::uint64_t now = now_ns();
    const bool often = begun >= driving_passes && begun >= (now - last_look_) / driving_interval_ns;
    const bool drive = often || at_work || (were_at_work && begun > 0);
    last_look_ = now;
    if (begun > 0) last_pass_ = last_look_;
    // Who only posts reads no completions: that is no reason to stay away for longer and longer.
    if (!drive || last_look_ - last_pass_ > longest_pass_ns) driven_since_ = last_look_;
    return drive;
}

void ProgressThread::run() noexcept {
    last_work_ = now_ns();
    while (!stop_.load(std::memory_order_relaxed)) {
        if (callers_drive()) {
            leave_to_callers();
            last_work_ = now_ns();
            continue;
        }
        if (pass()) {
            last_work_ = now_ns();
            idle_pause_ns_ = 0;
        } else if (now_ns() - last_work_ >= spin_ns) {
            block();
        } else {
            sched_yield();  // with few cores, whoever we wait for may need this one
        }
    }
}

/// Where there are several threads, the first alone looks often whether it is needed.
void ProgressThread::leave_to_callers() noexcept {
    const bool follows = bit_ != 1;
    if (follows) company_.resting.fetch_or(bit_, std::memory_order_seq_cst);
    const bool called =
        nap(std::clamp((last_look_ - driven_since_) / driven_share, driven_sleep_ns, longest_rest_ns_));
    if (follows) company_.resting.fetch_and(~bit_, std::memory_order_seq_cst);
    if (called) driven_since_ = now_ns();  // and looks again soon
}

/// Sleeps, or until wake() or the end; true: it was woken.
bool ProgressThread::nap(std::uint64_t nanoseconds) noexcept {
    const timespec pause{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
    pollfd wake{wake_fd_, POLLIN, 0};
    if (ppoll(&wake, 1, &pause, nullptr) <= 0) return false;
    take_signal();
    return true;
}

/// Else every sleep would end at once.
void ProgressThread::take_signal() noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
}

bool ProgressThread::ready_to_block() noexcept {
    // Every rail must be drained and say that its descriptor will tell; a busy one has a holder: look again
    // later.
    return std::all_of(rails_.begin(), rails_.end(), [](Rail* rail) { return rail->prepare_wait(); });
}

void ProgressThread::block() noexcept {
    company_.asleep.fetch_or(bit_, std::memory_order_seq_cst);
    // What came before that could be seen found nobody to wake.
    if (chore_()) {
        get_up();
        last_work_ = now_ns();
        return;
    }
    const bool may_block = ready_to_block() && !stop_.load(std::memory_order_seq_cst);
    if (all_waitable_ && may_block) {
        epoll_event events[16];
        const int told = epoll_wait(
            epoll_fd_, events, static_cast<int>(std::size(events)),
            static_cast<int>(std::min<std::uint64_t>(until_wake_ns() / 1'000'000 + 1, block_limit_ms)));
        if (told > 0 && now_ns() - last_look_ > stale_ns) look_afresh();
    } else {
        nap(all_waitable_ ? shortest_sleep_ns : std::min(next_pause_ns(), until_wake_ns()));
    }
    get_up();
    take_signal();
}

/// What callers did while we were blocked says nothing of now: who drove then may have gone to sleep since.
/// For as long as we spin, they show whether they do.
void ProgressThread::look_afresh() noexcept {
    seen_passes_ = caller_passes_();
    seen_at_work_ = false;
    last_work_ = last_look_ = driven_since_ = now_ns();
}

std::uint64_t ProgressThread::until_wake_ns() const noexcept {
    if (!wake_at_) return UINT64_MAX;
    const std::uint64_t at = wake_at_->load(std::memory_order_relaxed), now = now_ns();
    return at > now ? at - now : shortest_sleep_ns;
}

std::uint64_t ProgressThread::next_pause_ns() noexcept {
    if (pause_ns_) return pause_ns_;
    if (now_ns() - last_work_ > long_idle_ns) return long_idle_pause_ns;
    idle_pause_ns_ = std::clamp(idle_pause_ns_ * 2, shortest_sleep_ns, longest_sleep_ns);
    return idle_pause_ns_;
}

}  // namespace railyard
