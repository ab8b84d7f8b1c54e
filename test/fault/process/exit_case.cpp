// A program that ends with engines alive, in the way that its first argument names: exit_test.cpp runs it.
// The second is the fabric, as in "tcp:2:thread". It is to end with status 7.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "traffic.h"

namespace railyard::test {
namespace {

constexpr int right_status = 7;

/// From here on the clock of exit_test.cpp runs.
int leave() {
    const char word = '.';
    return write(STDOUT_FILENO, &word, 1) == 1 ? right_status : 3;
}

std::unique_ptr<Traffic>& kept() {
    static std::unique_ptr<Traffic> traffic;
    return traffic;
}

/// With something under way.
void start_work(Traffic& traffic) {
    traffic.round();
    traffic.post();
    traffic.pair.a->send_notification("beta", std::string(100'000, 'x'));
}

int leave_static(const Fabric& fabric) {
    kept() = std::make_unique<Traffic>(fabric);
    start_work(*kept());
    return leave();
}

/// The static's destructor is registered before anything of the engine's is.
int leave_static_made_late(const Fabric& fabric) {
    kept();
    return leave_static(fabric);
}

int leak(const Fabric& fabric) {
    static auto* const traffic = new Traffic(fabric);
    start_work(*traffic);
    return leave();
}

int call_exit_in_flight(const Fabric& fabric) {
    Traffic traffic(fabric);
    start_work(traffic);
    std::exit(leave());
}

int call_exit_from_another_thread(const Fabric& fabric) {
    static auto* const traffic = new Traffic(fabric);
    start_work(*traffic);
    std::thread other([] { std::exit(leave()); });
    for (;;)
        traffic->pair.a->progress();
}

/// main returns while threads post and poll.
int return_under_a_working_thread(const Fabric& fabric) {
    static auto* const traffic = new Traffic(fabric, std::size_t{1} << 20);
    traffic->round();
    static std::atomic<int> rounds{0};
    std::thread worker([] {
        for (;;) {
            Status status = traffic->pair.a->post(*traffic->transfer);
            while (status == Status::in_progress)
                status = traffic->pair.a->poll(*traffic->transfer);
            rounds.fetch_add(1);
        }
    });
    std::thread target([] {
        std::vector<Notification> got;
        for (;;)
            traffic->pair.b->take_notifications(got);
    });
    worker.detach();
    target.detach();
    while (rounds.load() < 5)
        std::this_thread::yield();
    return leave();
}

int call_quick_exit(const Fabric& fabric) {
    static auto* const traffic = new Traffic(fabric);
    start_work(*traffic);
    std::quick_exit(leave());
}

}  // namespace
}  // namespace railyard::test

int main(int argc, char** argv) {
    using namespace railyard::test;
    const std::map<std::string, int (*)(const Fabric&)> cases{
        {"static", leave_static},
        {"static-made-late", leave_static_made_late},
        {"leak", leak},
        {"exit-in-flight", call_exit_in_flight},
        {"exit-from-another-thread", call_exit_from_another_thread},
        {"return-under-a-working-thread", return_under_a_working_thread},
        {"quick-exit", call_quick_exit},
    };
    if (argc != 3 || !cases.contains(argv[1])) return 2;
    setenv("RAILYARD_TEST_FABRICS", argv[2], 1);
    return cases.at(argv[1])(fabrics({}).front());
}
