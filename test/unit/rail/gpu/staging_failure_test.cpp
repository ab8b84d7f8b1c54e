// What goes wrong, what comes from several sides at once, and what is left.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "staging_fixture.h"

namespace railyard::test {
namespace {

using StagingRailFailure = OnStagingRail;
using Lengths = std::vector<std::uint32_t>;

TEST_F(StagingRailFailure, ACopyThatFailsIsABackendErrorAndTheNextTransferWorks) {
    open(2, 4096);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{40'000, 7, 9}, 4096, 5});
        for (const char* call : {"cuMemcpyAsync", "cuEventRecord", "cuEventQuery", "cuCtxPushCurrent"}) {
            // A poll makes the context current as well, but does not need it.
            const unsigned later = call == std::string("cuCtxPushCurrent") ? 0 : 3;
            for (const unsigned nth : {1U, later}) {
                fake().fail(call, nth, CUDA_ERROR_INVALID_VALUE);
                moved->post(*staging);
                EXPECT_EQ(end(*moved), Status::backend) << call << ' ' << nth;
                fake().fail_nothing();
                moved->fill(nth);
                moved->post(*staging);
                EXPECT_EQ(end(*moved), Status::ok) << call << ' ' << nth;
                EXPECT_TRUE(moved->arrived()) << call << ' ' << nth;
            }
        }
    }
    progress();
    EXPECT_FALSE(staging->has_work());
}

TEST_F(StagingRailFailure, AFaultOnTheGpuEndsEverythingThatComes) {
    open(3, 4096);
    for (const Work::Kind kind : both_kinds) {
        fake().fail("execute", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
        for (int round = 0; round < 3; ++round) {
            const auto moved = transfer(kind, {{50'000}});
            moved->post(*staging);
            EXPECT_EQ(end(*moved), Status::backend);
        }
        fake().fail_nothing();
    }
}

TEST_F(StagingRailFailure, ACarriersErrorIsTheTransfers) {
    open(2, 4096);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {Lengths(400, 100), 4096, 1});
        for (const unsigned nth : {1U, 30U, 400U}) {
            rails[0]->failure = nth == 30 ? Status::not_allowed : Status::remote_disconnect;
            rails[0]->fail_nth = nth;
            moved->post(*staging);
            EXPECT_EQ(end(*moved), rails[0]->failure.load()) << nth;
            EXPECT_TRUE(drive([&] { return !staging->has_work(); }, [&] { progress(); }));
            EXPECT_TRUE(moved->work.done());  // a chunk that ended twice would have counted below zero
            moved->fill(nth);
            moved->post(*staging);
            EXPECT_EQ(end(*moved), Status::ok) << nth;
            EXPECT_TRUE(moved->arrived());
        }
    }
}

/// Who has the memory at the other end must not have it back before.
TEST_F(StagingRailFailure, WhatACarrierGivesUpCountsForTheTransferToo) {
    open(2, 4096);
    rails[0]->gives_up = true;
    for (const Work::Kind kind : both_kinds) {
        std::atomic<std::uint32_t> late{0};
        const auto moved = transfer(kind, {{4096}});
        moved->submission.late = &late;
        rails[0]->fail_nth = 1;
        moved->post(*staging);
        EXPECT_EQ(end(*moved), Status::remote_disconnect);
        EXPECT_EQ(late, 1U);
        for (int i = 0; i < 20; ++i)
            progress();
        EXPECT_EQ(late, 1U);
        ASSERT_EQ(rails[0]->given_up.size(), 1U);
        rails[0]->given_up.front()->fetch_sub(1);
        rails[0]->given_up.clear();
        EXPECT_TRUE(drive([&] { return late == 0U; }, [&] { progress(); }));
    }
}

TEST_F(StagingRailFailure, WhileAllSlotsAreWithThoseThatWereGivenUpOthersWait) {
    open(1, 4096);
    rails[0]->gives_up = true;
    std::atomic<std::uint32_t> late{0};
    const auto lost = transfer(Work::Kind::write, {{4096}});
    lost->submission.late = &late;
    rails[0]->fail_nth = 1;
    lost->post(*staging);
    EXPECT_EQ(end(*lost), Status::remote_disconnect);
    ASSERT_EQ(rails[0]->given_up.size(), 1U);
    const auto in_vain = transfer(Work::Kind::read, {{4096}});
    in_vain->post(*staging);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(end(*in_vain), Status::backend);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(StagingRail::lost_limit_ns));
    const auto moved = transfer(Work::Kind::write, {{4096}});
    moved->post(*staging);
    for (int i = 0; i < 20; ++i)
        progress();
    EXPECT_FALSE(moved->work.done());
    rails[0]->given_up.front()->fetch_sub(1);
    rails[0]->given_up.clear();
    EXPECT_EQ(end(*moved), Status::ok);
    EXPECT_TRUE(moved->arrived());
}

TEST_F(StagingRailFailure, AStoppedTransferPostsNoMoreAndWaitsForItsSlots) {
    open(4, 4096);
    for (const Work::Kind kind : both_kinds) {
        rails[0]->hold = true;
        const auto moved = transfer(kind, {{40 * 4096}});
        const std::uint64_t before = rails[0]->posted;
        moved->post(*staging);
        ASSERT_TRUE(drive([&] { return rails[0]->posted - before == 4; }, [&] { progress(); }));
        moved->work.stop(Status::canceled);
        for (int i = 0; i < 20; ++i)
            progress();
        EXPECT_FALSE(moved->work.done()) << "the network still touches its slots";
        rails[0]->hold = false;
        EXPECT_EQ(end(*moved), Status::canceled);
        EXPECT_EQ(rails[0]->posted - before, 4U);
    }
}

TEST_F(StagingRailFailure, WhatWasStoppedGoesNoFurtherThanItsSlot) {
    open(4, 4096);
    fake().set_delay_us(2000);
    const auto out = transfer(Work::Kind::write, {{8192}});
    out->post(*staging);
    out->work.stop(Status::canceled);
    EXPECT_EQ(end(*out), Status::canceled);
    EXPECT_EQ(rails[0]->posted, 0U);
    const auto in = transfer(Work::Kind::read, {{8192}});
    in->post(*staging);
    EXPECT_EQ(rails[0]->posted, 2U);
    rails[0]->progress();
    in->work.stop(Status::canceled);
    EXPECT_EQ(end(*in), Status::canceled);
    EXPECT_EQ(content(in->device_address(), 8192), std::vector<std::byte>(8192));
}

TEST_F(StagingRailFailure, AStoppedTransferWithoutASlotEndsAtOnce) {
    open(2, 4096);
    rails[0]->hold = true;
    const auto first = transfer(Work::Kind::read, {{40'000}}),
               second = transfer(Work::Kind::write, {{40'000}});
    first->post(*staging);
    second->post(*staging);
    progress();
    EXPECT_FALSE(second->work.done());
    second->work.stop(Status::canceled);
    progress();
    EXPECT_TRUE(second->work.done());
    EXPECT_EQ(second->work.status(), Status::canceled);
    rails[0]->hold = false;
    EXPECT_EQ(end(*first), Status::ok);
    EXPECT_TRUE(first->arrived());
}

TEST_F(StagingRailFailure, AStopReachesWhatWaitsWithACarrier) {
    open(2, 4096);
    Path gate;
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{9000}});
        moved->route.carriers[0].path = &gate;
        moved->route.carriers[0].gated = true;
        moved->post(*staging);
        ASSERT_TRUE(drive([&] { return rails[0]->has_work(); }, [&] { progress(); }));
        moved->work.stop(Status::canceled);
        EXPECT_EQ(end(*moved), Status::canceled);
        EXPECT_EQ(rails[0]->posted, 0U);
    }
}

TEST_F(StagingRailFailure, CarriersThatGoForgetTheSlotsAndCopiesAreWaitedFor) {
    for (const Work::Kind kind : both_kinds) {
        for (int round = 0; round < 5; ++round) {
            open(4, 4096);
            fake().set_delay_us(3000);
            rails[0]->hold = kind == Work::Kind::read && round % 2;
            const auto moved = transfer(kind, {{40'000}});
            moved->post(*staging);
            for (int i = 0; i < 3; ++i)
                progress();
            rails.clear();
            staging.reset();
        }  // a copy that came after the memory was freed would fault
    }
}

TEST_F(StagingRailFailure, OpensOnceWhoeverAsks) {
    const ContextPtr held = context();
    StagingRail rail("staging");
    EXPECT_FALSE(rail.is_open());
    EXPECT_EQ(rail.max_chunk(), 0U);
    EXPECT_EQ(rail.progress(), Rail::Progress::idle);
    fake().fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    const auto [status, message] = cuda::error_of([&] { rail.open(held, 2, 4096); });
    EXPECT_EQ(status, Status::backend);
    EXPECT_CONTAINS(message, "cuMemHostAlloc");
    EXPECT_FALSE(rail.is_open());
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            rail.open(held, 2 + i, 4096);
            EXPECT_EQ(rail.max_chunk(), 4096U);
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(fake().statistics().host_allocations, 1U);
    const std::byte* memory = rail.ring().memory().data();
    rail.open(held, 7, 8192);
    EXPECT_EQ(rail.ring().memory().data(), memory);
    EXPECT_EQ(rail.max_chunk(), 4096U);
}

TEST_F(StagingRailFailure, AnIdleRailDoesNotCallTheDriver) {
    open(4, 4096);
    const auto moved = transfer(Work::Kind::write, {{40'000}});
    moved->post(*staging);
    EXPECT_EQ(end(*moved), Status::ok);
    progress();
    EXPECT_FALSE(staging->has_work());
    EXPECT_TRUE(staging->prepare_wait());
    EXPECT_FALSE(staging->needs_polling());
    const std::size_t calls = fake().statistics().calls;
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(staging->progress(), Rail::Progress::idle);
    EXPECT_EQ(fake().statistics().calls, calls);
}

TEST_F(StagingRailFailure, LeavesNothingAfterManyTransfers) {
    for (int round = 0; round < 20; ++round) {
        open(3, 4096);
        const auto moved = transfer(both_kinds[round % 2], {{20'000}});
        for (int i = 0; i < 10; ++i) {
            moved->post(*staging);
            EXPECT_EQ(end(*moved), Status::ok);
        }
        rails.clear();
        staging.reset();
        EXPECT_EQ(fake().statistics().host_allocations, 0U);
        EXPECT_EQ(fake().statistics().streams, 0U);
    }
}

/// Posters that drive everything themselves, as callers do, against one that drives only.
TEST_F(StagingRailFailure, ManyThreads) {
    open(4, 4096, 2);
    constexpr unsigned posters = 4, rounds = 25;
    std::vector<std::unique_ptr<StagedTransfer>> all;
    for (unsigned i = 0; i < posters; ++i)
        all.push_back(transfer(both_kinds[i % 2], {Lengths(60, 100 + 200 * i), 4096, i}, i));
    std::atomic<unsigned> right{0};
    std::atomic<bool> over{false};
    std::thread driver([&] {
        while (!over)
            progress();
    });
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < posters; ++i) {
        threads.emplace_back([&, i] {
            for (unsigned round = 0; round < rounds; ++round) {
                all[i]->fill(100 * i + round);
                all[i]->post(*staging);
                if (round % 10 == 9) all[i]->work.stop(Status::canceled);
                const Status status = end(*all[i]);
                if (status == Status::canceled ? round % 10 == 9 : status == Status::ok && all[i]->arrived())
                    ++right;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    over = true;
    driver.join();
    EXPECT_EQ(right, posters * rounds);
}

/// The staging memory that a GPU may still write to stays; so this one test leaves something.
class StagingRailHang : public OnStagingRail {
  protected:
    void TearDown() override { fake().set_delay_us(delay_at_start()); }
};

TEST_F(StagingRailHang, AGpuThatHangsDoesNotHangTheTeardown) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "leaks on purpose";
#endif
    open(64, 4096);
    fake().set_delay_us(1'000'000);
    auto moved = transfer(Work::Kind::write, {{100 * 4096}});
    moved->post(*staging);
    rails.clear();
    const auto start = std::chrono::steady_clock::now();
    staging.reset();
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_GE(took, std::chrono::milliseconds(1900));
    EXPECT_LE(took, std::chrono::seconds(4));
    EXPECT_EQ(fake().statistics().host_allocations, 1U);
    static_cast<void>(moved.release());  // the copies go on
}

}  // namespace
}  // namespace railyard::test
