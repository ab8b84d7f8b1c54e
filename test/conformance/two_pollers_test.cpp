// One transfer whose end several threads ask for: they hear the same of it.
#include <atomic>
#include <barrier>
#include <thread>

#include "engine/start_control.h"
#include "engine/transfer.h"
#include "engine_pair.h"
#include "sanitized.h"

namespace railyard::test {
namespace {

constexpr int rounds = sanitized ? 4000 : 10'000;

/// Both threads poll by the time that a round starts.
struct HeldStart final : StartControl {
    Status hold(Transfer&) noexcept override { return Status::in_progress; }
    void data_ended(Transfer&, Status) noexcept override {}
    void stopped(Transfer&) noexcept override {}
    void gone(Transfer&) noexcept override {}
};

/// Every second round fails, and the one before it did not.
TEST(TwoPollers, HearTheSameOfEachRound) {
    const auto pair = EnginePair::alone({"tcp", 1, false});
    Engine& engine = *pair.a;
    Buffer source(engine, 64, 1), target(engine, 64);
    const auto remote = engine.local_as_remote(target.region);
    const LocalDescriptor from = source.local(0, 64);
    const RemoteDescriptor to{target.address(), 64, &remote};
    Transfer* const transfer = engine.prepare(Operation::write, {&from, 1}, {&to, 1}, "alpha", std::nullopt);
    HeldStart control;
    engine.control_start(*transfer, control);
    std::barrier together(3);
    std::atomic<Status> expected{Status::ok};
    std::atomic<int> wrong{0};
    const auto ask = [&] {
        for (int round = 0; round < rounds; ++round) {
            together.arrive_and_wait();
            Status status = Status::in_progress;
            while (status == Status::in_progress)
                status = engine.poll(*transfer);
            wrong += status != expected.load() || engine.look(*transfer) != status ? 1 : 0;
            together.arrive_and_wait();
        }
    };
    std::thread first(ask), second(ask);
    for (int round = 0; round < rounds; ++round) {
        const bool fails = round % 2 != 0;
        expected.store(fails ? Status::canceled : Status::ok);
        EXPECT_EQ(engine.post(*transfer), Status::in_progress);
        together.arrive_and_wait();
        if (fails) transfer->stop(Status::canceled);
        engine.start(*transfer);
        together.arrive_and_wait();
        // However late it is stopped, and whoever asks then.
        transfer->stop(Status::backend);
        EXPECT_EQ(engine.poll(*transfer), expected.load());
    }
    first.join();
    second.join();
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(transfer->ended_well.load(), static_cast<std::uint64_t>(rounds / 2))
        << "counted more than once";
    engine.release(transfer);
}

}  // namespace
}  // namespace railyard::test
