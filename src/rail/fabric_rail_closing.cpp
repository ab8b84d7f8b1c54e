// How a rail goes whose provider waits, perhaps for ever, before it closes (ProviderCaps::waits_to_close).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/fork_watch.h"
#include "common/log.h"
#include "common/signals_blocked.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// For which rails that go one after the other wait together, and each of them at least.
constexpr std::uint64_t last_wait_ns = 1'000'000'000, shortest_wait_ns = 10'000'000;
constexpr std::uint64_t between_two_ns = 50'000'000;

/// What has not ended then waits for an answer that the provider does not wait for; or for the device to give
/// up, or for receive buffers, for which it does.
constexpr std::uint64_t longest_look_ns = 500'000'000;
constexpr std::uint64_t shortest_pause_ns = 20'000, longest_pause_ns = 2'000'000;

/// For threads that look, and for those that the provider has.
constexpr std::uint64_t first_wait_at_exit_ns = 1'000'000'000, longest_wait_at_exit_ns = 5'000'000'000;

std::atomic<std::uint64_t> last_wait_begun{0}, last_wait_over{0};  // ns

/// For how long the one that goes now is waited for; ns.
std::uint64_t last_wait() noexcept {
    const std::uint64_t now = now_ns();
    if (now - last_wait_over.load(std::memory_order_relaxed) > between_two_ns)
        last_wait_begun.store(now, std::memory_order_relaxed);
    const std::uint64_t waited = now - last_wait_begun.load(std::memory_order_relaxed);
    return std::max(last_wait_ns - std::min(waited, last_wait_ns), shortest_wait_ns);
}

/// A number of threads of this process: none in a child at first. Without a lock: one could be held at a
/// fork.
class ThreadCount {
  public:
    void add() noexcept { change(1); }
    void take() noexcept { change(-1); }
    [[nodiscard]] std::uint32_t get() const noexcept { return in(both_.load()); }

  private:
    static std::uint32_t in(std::uint64_t both) noexcept {
        return both >> 32 == fork_generation() ? static_cast<std::uint32_t>(both) : 0;
    }
    void change(int by) noexcept {
        std::uint64_t before = both_.load(), after = 0;
        do
            after = std::uint64_t{fork_generation()} << 32 | (in(before) + static_cast<std::uint32_t>(by));
        while (!both_.compare_exchange_weak(before, after));
    }
    std::atomic<std::uint64_t> both_{0};  ///< fork_generation(), and the number
};

/// A stay in libfabric, which takes its devices down when the process exits. From then on there are none, and
/// the exit waits for those that there are.
class Stay {
  public:
    Stay() noexcept {
        static const bool waits_at_exit = std::atexit(leave_process) == 0;
        static_cast<void>(waits_at_exit);
        count_.add();
        granted_ = !exiting_.load();
        if (!granted_) count_.take();
    }
    ~Stay() {
        if (granted_) count_.take();
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    explicit operator bool() const noexcept { return granted_; }

    inline static constinit ThreadCount threads;  ///< that close a rail

  private:
    static void leave_process() noexcept {
        const std::uint64_t now = now_ns();
        wait_for_none(threads, now + first_wait_at_exit_ns);
        exiting_.store(true);
        wait_for_none(count_, now + longest_wait_at_exit_ns);
    }
    static void wait_for_none(const ThreadCount& some, std::uint64_t end) noexcept {
        while (some.get() != 0 && now_ns() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    inline static constinit ThreadCount count_;
    inline static std::atomic<bool> exiting_{false};
    bool granted_ = false;
};

}  // namespace

std::size_t FabricRail::posted_of(const Operations& operations) noexcept {
    return static_cast<std::size_t>(
        std::count_if(operations.begin(), operations.end(),
                      [](const Operation& operation) { return operation.posted != 0; }));
}

std::size_t FabricRail::Opened::unended() const noexcept {
    std::size_t count = control->with_sender() + posted_of(*operations.back());
    for (const auto& one : aside)
        count += one->messages->unended() + posted_of(*one->operations);
    return count;
}

constinit std::atomic<FabricRail::Opened*> FabricRail::open_for_ever_{nullptr};
constinit std::atomic<FabricRail::Opened*> FabricRail::without_thread_{nullptr};

void FabricRail::keep_open(std::shared_ptr<Opened> fabric, std::atomic<Opened*>& list) noexcept {
    Opened& opened = *fabric;
    opened.itself = std::move(fabric);
    opened.next_open = list.load(std::memory_order_relaxed);
    while (!list.compare_exchange_weak(opened.next_open, &opened)) {
    }
}

void FabricRail::close_now(std::shared_ptr<Opened> fabric, std::size_t most_unread) noexcept {
    const Stay stay;
    if (!stay) return keep_open(std::move(fabric), open_for_ever_);
    fabric->queue.drop(most_unread);
    for (auto& aside : fabric->aside)
        aside->endpoint.reset();
    fabric->sender.reset();
    fabric->queue.drop(most_unread);
    fabric.reset();
}

/// Looks itself while there is hope: the provider would do so without a pause, and hear of no exit. `apart`:
/// in a thread that the provider may keep.
void FabricRail::close_when_ended(std::shared_ptr<Opened> fabric, std::size_t most_unread,
                                  bool apart) noexcept {
    const std::uint64_t end = now_ns() + (apart ? longest_look_ns : last_wait());
    for (std::uint64_t pause = shortest_pause_ns;; pause = std::min(2 * pause, longest_pause_ns)) {
        {
            const Stay stay;
            if (!stay || fabric->queue.broken()) return keep_open(std::move(fabric), open_for_ever_);
            fabric->queue.drop_ended(most_unread);
        }
        if (fabric->unended() == 0) break;
        if (now_ns() >= end) {
            if (apart) break;
            return keep_open(std::move(fabric), without_thread_);
        }
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
    }
    close_now(std::move(fabric), most_unread);
}

void FabricRail::close_apart(std::shared_ptr<Opened> fabric, std::size_t most_unread) noexcept {
    try {
        // Not a promise: one that is broken takes memory, and there may be none.
        enum Stage { handing_over, handed_over, closed, others };
        const auto stage = std::make_shared<std::atomic<Stage>>(handing_over);
        const std::string rail = fabric->domain.rail();
        std::optional<SignalsBlocked> with_it(std::in_place);
        std::thread closing([fabric, most_unread, stage]() mutable {
            while (stage->load(std::memory_order_acquire) == handing_over)
                std::this_thread::yield();  // until nobody else has it
            close_when_ended(std::move(fabric), most_unread, true);
            Stay::threads.take();
            Opened* next = without_thread_.exchange(nullptr);
            stage->store(next ? others : closed, std::memory_order_release);
            while (next) {
                Opened& opened = *std::exchange(next, next->next_open);
                close_now(std::move(opened.itself), most_unread);
            }
        });
        with_it.reset();
        Stay::threads.add();
        fabric.reset();
        stage->store(handed_over, std::memory_order_release);
        const std::uint64_t end = now_ns() + last_wait();
        while (stage->load(std::memory_order_acquire) == handed_over && now_ns() < end)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        last_wait_over.store(now_ns(), std::memory_order_relaxed);
        const Stage reached = stage->load(std::memory_order_acquire);
        if (reached == closed) return closing.join();
        closing.detach();
        if (reached == others) return;
        RAILYARD_LOG(warn, rail.c_str(), "its endpoints are still being closed: not all has ended there");
    } catch (const std::exception&) {
        if (!fabric) return;
        close_when_ended(std::move(fabric), most_unread, false);  // there was no thread
        last_wait_over.store(now_ns(), std::memory_order_relaxed);
    }
}

}  // namespace railyard
