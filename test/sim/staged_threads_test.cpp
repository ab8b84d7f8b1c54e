// GPU memory behind staging buffers on rails of several progress threads.
#include <time.h>

#include <algorithm>
#include <array>

#include "common/clock.h"
#include "gpu_side.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace staged_threads_test {

constexpr std::uint64_t pause_us = 2'000'000;  // of a thread whose rails are polled
constexpr std::size_t size = 64 << 10;

std::unique_ptr<Engine> make_initiator() {
    ParamMap params = fabric_params({"efa-direct", 32});
    params["progress_threads"] = "2";
    params["vram_staging"] = "always";
    EngineConfig config;
    config.agent_name = "alpha";
    config.params = Params::parse(params, [](const char*) -> const char* { return nullptr; });
    config.progress_thread = true;
    config.progress_delay = std::chrono::microseconds(pause_us);
    return std::make_unique<Engine>(std::move(config));
}

/// Its rails are the second thread's, which has gone to sleep before the GPU's copy is over.
TEST(StagedThreads, WhoCarriesWhatAnotherHasStagedIsWoken) {
    ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one";
    const Disturbance polled("wait_objects=off");
    const auto a = make_initiator(), b = make_engine("beta", {"efa-direct", 32});
    a->load_connection_info("beta", b->connection_info());
    b->load_connection_info("alpha", a->connection_info());
    Place source(*a, 7, size);
    Buffer target(*b, size);
    const auto remote =
        a->load_remote_memory("beta", b->memory_metadata(*target.region), target.address(), size);
    const LocalDescriptor from{source.address, size, &source.region};
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* const transfer = a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    const auto ended = [&](auto make_pass) {
        const std::uint64_t limit = now_ns() + 20'000'000'000;
        const timespec moment{0, 200'000};
        Status status = a->look(*transfer);
        for (; status == Status::in_progress && now_ns() < limit; status = a->look(*transfer)) {
            make_pass();
            nanosleep(&moment, nullptr);
        }
        return status == Status::ok;
    };
    static_cast<void>(a->post(*transfer));
    ASSERT_TRUE(ended([&] {  // introductions
        a->progress();
        b->progress();
    }));
    const auto time_to_carry = [&] {
        fake().hold(true);
        EXPECT_EQ(a->post(*transfer), Status::in_progress);
        const timespec moment{0, 100'000'000};
        nanosleep(&moment, nullptr);
        fake().hold(false);
        const std::uint64_t begin = now_ns();
        EXPECT_TRUE(ended([] {}));
        return now_ns() - begin;
    };
    std::array<std::uint64_t, 5> times{};
    for (std::uint64_t& time : times)
        time = time_to_carry();
    std::sort(times.begin(), times.end());
    EXPECT_LT(times[2], 200'000'000u) << "the watch wakes it, too, once a second";
    a->release(transfer);
    source.drop(*a);
}

}  // namespace staged_threads_test
}  // namespace railyard::test
