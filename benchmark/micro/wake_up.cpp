// How long a sleeping progress thread takes from a descriptor that becomes readable to the look at its rail,
// and how long a thread that does nothing but epoll_wait takes for the same, in turns. Prints one JSON
// document.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "common/clock.h"
#include "engine/progress_thread.h"
#include "histogram.h"
#include "host_facts.h"

namespace railyard {
namespace {

using bench::Histogram;

/// An event, when it came, and when it was seen.
class Event {
  public:
    Event() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    ~Event() { close(fd_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    /// Nanoseconds until it was seen.
    std::uint64_t happen() {
        seen_.store(0);
        const std::uint64_t one = 1, begun = now_ns();
        if (write(fd_, &one, sizeof(one)) < 0)
            throw std::system_error(errno, std::generic_category(), "write");
        while (seen_.load() == 0) {
            if (now_ns() - begun > 5'000'000'000)
                throw std::runtime_error("nobody has seen an event for 5 s");
            std::this_thread::yield();
        }
        return seen_.load() - begun;
    }
    /// False: there was none.
    bool look() noexcept {
        std::uint64_t count = 0;
        if (read(fd_, &count, sizeof(count)) < 0) return false;
        seen_.store(now_ns());
        return true;
    }

  private:
    const int fd_;
    std::atomic<std::uint64_t> seen_{0};
};

/// All that the thread sees of a rail.
class EventRail final : public Rail {
  public:
    explicit EventRail(Event& event) : Rail("event"), event_(event) {}
    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return 1; }
    [[nodiscard]] int wait_fd() const noexcept override { return event_.fd(); }

  private:
    bool serve(bool) noexcept override { return event_.look(); }
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
    bool may_wait() noexcept override { return true; }

    Event& event_;
};

class BareThread {
  public:
    explicit BareThread(Event& event) : event_(event), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, event_.fd(), &wanted) != 0)
            throw std::system_error(errno, std::generic_category(), "epoll");
        thread_ = std::thread([this] {
            while (!stop_.load()) {
                epoll_event got{};
                if (epoll_wait(epoll_, &got, 1, 100) > 0) event_.look();
            }
        });
    }
    ~BareThread() {
        stop_.store(true);
        thread_.join();
        close(epoll_);
    }
    BareThread(const BareThread&) = delete;
    BareThread& operator=(const BareThread&) = delete;

  private:
    Event& event_;
    const int epoll_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

void measure(Event& event, Histogram& times, unsigned events, std::chrono::microseconds gap) {
    for (unsigned i = 0; i < events; ++i) {
        std::this_thread::sleep_for(gap);
        times.add(event.happen());
    }
}

nlohmann::json run(unsigned slices, unsigned events, std::chrono::microseconds gap) {
    Event ours, bare;
    EventRail rail(ours);
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [] { return std::uint64_t{0}; });
    const BareThread other(bare);
    Histogram our_times, bare_times;
    for (unsigned i = 0; i < slices; ++i) {
        measure(ours, our_times, events, gap);
        measure(bare, bare_times, events, gap);
    }
    const auto us = [](const Histogram& times, double part) { return times.percentile(part) / 1000; };
    return {{"version", 1},
            {"host", bench::host_facts()},
            {"p50_us", us(our_times, 0.5)},
            {"p99_us", us(our_times, 0.99)},
            {"bare_p50_us", us(bare_times, 0.5)},
            {"bare_p99_us", us(bare_times, 0.99)}};
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    unsigned slices = 10, events = 200, gap_us = 1000;
    CLI::App app{"How long a sleeping progress thread takes to look, beside a bare epoll_wait."};
    app.add_option("--slices", slices, "Turns of either")->capture_default_str();
    app.add_option("--events", events, "Events of a turn")->capture_default_str();
    app.add_option("--gap-us", gap_us, "Microseconds of sleep before each")->capture_default_str();
    CLI11_PARSE(app, count, words);
    try {
        std::puts(railyard::run(slices, events, std::chrono::microseconds(gap_us)).dump().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wake-up: %s\n", error.what());
        return 1;
    }
    return 0;
}
