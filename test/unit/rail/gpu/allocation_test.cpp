// In steady state both rails allocate nothing. The fake driver does, so its calls are left out of the count.
#include <cuda.h>

#include <cstdlib>
#include <utility>

#include "cuda/copy_kernel.h"
#include "rail/device_copy_rail.h"
#include "staging_fixture.h"

namespace {
thread_local bool counting = false;
thread_local long allocations = 0;

void count_allocation() {
    if (counting) ++allocations;
}
}  // namespace

#include "allocation_hooks.h"

namespace railyard::test {
namespace {

/// `function` of the driver, uncounted.
template <auto member>
struct Uncounted;
template <class... Arguments, CUresult (*cuda::Driver::*member)(Arguments...)>
struct Uncounted<member> {
    static inline CUresult (*function)(Arguments...) = nullptr;
    static CUresult call(Arguments... arguments) {
        const bool before = std::exchange(counting, false);
        const CUresult result = function(arguments...);
        counting = before;
        return result;
    }
    static void wrap(cuda::Driver& driver) {
        function = driver.*member;
        driver.*member = call;
    }
};

class RailAllocations : public OnStagingRail {
  protected:
    void SetUp() override {
        OnStagingRail::SetUp();
        wrapped_ = driver();
        Uncounted<&cuda::Driver::memcpy_async>::wrap(wrapped_);
        Uncounted<&cuda::Driver::launch_kernel>::wrap(wrapped_);
        Uncounted<&cuda::Driver::event_record>::wrap(wrapped_);
        Uncounted<&cuda::Driver::event_query>::wrap(wrapped_);
        Uncounted<&cuda::Driver::ctx_push_current>::wrap(wrapped_);
        Uncounted<&cuda::Driver::ctx_pop_current>::wrap(wrapped_);
        Uncounted<&cuda::Driver::thread_exchange_stream_capture_mode>::wrap(wrapped_);
        open(4, 4096);
        staging = std::make_unique<StagingRail>("staging");
        staging->open(uncounted_context(), 4, 4096);
    }
    [[nodiscard]] ContextPtr uncounted_context() const {
        return std::make_shared<cuda::PrimaryContext>(wrapped_, 0);
    }
    /// Of rounds after the first one.
    template <class Post, class Progress>
    static long steady_allocations(const Work& work, Post post, Progress progress) {
        for (int round = 0; round < 11; ++round) {
            allocations = 0;
            counting = round > 0;
            post();
            const bool ended = drive([&] { return work.done(); }, progress);
            counting = false;
            EXPECT_TRUE(ended);
            EXPECT_EQ(work.status(), Status::ok);
            if (allocations) break;
        }
        return allocations;
    }

  private:
    cuda::Driver wrapped_;
};

TEST_F(RailAllocations, TheCounterCounts) {
    allocations = 0;
    counting = true;
    std::vector<int> grows;
    grows.push_back(1);
    grows.reserve(100);
    counting = false;
    EXPECT_EQ(allocations, 2);
}

TEST_F(RailAllocations, Staging) {
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {std::vector<std::uint32_t>(700, 100), 4096, 5});
        EXPECT_EQ(steady_allocations(
                      moved->work, [&] { moved->post(*staging); }, [&] { progress(); }),
                  0);
        EXPECT_TRUE(moved->arrived());
    }
}

TEST_F(RailAllocations, DeviceCopies) {
    const DeviceBuffer memory(held(), 64'000);
    Work work;
    for (std::uint64_t i = 0; i < 300; ++i)
        work.chunks.push_back({memory.address() + 100 * i, memory.address() + 32'000 + 100 * i, 99, 0, 0});
    Route route;
    Submission submission;
    submission.lane = &work.lanes.emplace_back(work, 0, 300);
    submission.route = &route;
    DeviceCopyRail rail("copies");
    const cuda::ContextPtr context = uncounted_context();
    rail.open(context, 2, cuda::CopyKernel::load(context));
    auto post = [&] {
        submission.rearm();
        work.arm(1, nullptr);
        rail.submit(submission);
    };
    for (const bool by_kernel : {false, true}) {
        route.threads_reach = by_kernel;
        EXPECT_EQ(steady_allocations(work, post, [&] { rail.progress(); }), 0) << by_kernel;
    }
}

}  // namespace
}  // namespace railyard::test
