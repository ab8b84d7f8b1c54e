// Children that are forked in the middle of calls of the flow API: at what these allocate and free, as
// another thread of a program may fork then.
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "fault/process/child.h"
#include "flow_program.h"

namespace {

/// Of this thread, calls of new and delete until `at_turn` is called, once; negative: it is not.
thread_local long turns_left = -1;
void (*at_turn)() = nullptr;

void count_turn() noexcept {
    if (turns_left >= 0 && turns_left-- == 0) at_turn();
}

}  // namespace

// Not inlined: the compiler would see malloc without free, or free without malloc.
[[gnu::noinline]] void* operator new(std::size_t size) {
    count_turn();
    void* const memory = std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
    count_turn();
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
    count_turn();
}

namespace railyard::flow::test {
namespace {

using railyard::test::Child;

const Fabric tcp{RYF_PROVIDER_TCP, "lo", 1, "tcp"};
constexpr long turns_of_all = 1'000'000'000;

class FlowForks : public testing::Test {
  protected:
    ~FlowForks() override { turns_left = -1; }

    /// How often `call` allocates or frees.
    static long turns_of(const std::function<void()>& call) {
        turns_left = turns_of_all;
        call();
        return turns_of_all - std::exchange(turns_left, -1);
    }
    /// Runs `call`, and `in_child` in a child that is forked when it has allocated and freed so often. How
    /// the child has ended; empty: it came to no fork.
    static std::string fork_at(long turn, const std::function<void()>& call, std::function<bool()> in_child) {
        body_ = std::move(in_child);
        outcome_.clear();
        at_turn = [] {
            Child child(Child::End::at_once, [] { return body_() ? 0 : 1; });
            outcome_ = child.outcome();
        };
        turns_left = turn;
        call();
        turns_left = -1;
        return outcome_;
    }

    static inline std::function<bool()> body_;
    static inline std::string outcome_;
    Instance instance_;
};

bool refused(ryf_status status) {
    return status == RYF_ERR_INVALID_STATE;
}

TEST_F(FlowForks, InTheMiddleOfASetupAnotherOneIsRefusedInTheChild) {
    Ring ring(1, 100);
    const ryf_config config = config_for(tcp, ring.regions);
    ryf_target* target = nullptr;
    ryf_initiator* initiator = nullptr;
    ryf_target_info* info = nullptr;
    const auto set_up_target = [&] { EXPECT_RYF(ryf_target_setup(target, &config, &info)); };
    const auto set_up_initiator = [&] { EXPECT_RYF(ryf_initiator_setup(initiator, &config)); };
    const auto create = [&] {
        ASSERT_RYF(ryf_target_create(instance_.handle, &target));
        ASSERT_RYF(ryf_initiator_create(instance_.handle, &initiator));
    };
    const auto destroy = [&] {
        EXPECT_RYF(ryf_target_destroy(target));
        EXPECT_RYF(ryf_initiator_destroy(initiator));
        ryf_target_info_free(std::exchange(info, nullptr));
    };
    create();
    const long turns = std::min(turns_of(set_up_target), turns_of(set_up_initiator));
    destroy();
    ASSERT_GT(turns, 100);
    // The first ones are before anybody is kept away.
    for (long turn = 10; turn < turns && !HasFailure(); turn += turns / 10) {
        create();
        EXPECT_EQ(fork_at(turn, set_up_target,
                          [&] {
                              ryf_grain grain;
                              return refused(ryf_target_setup(target, &config, &info)) &&
                                     refused(ryf_target_try_new_grain(target, &grain)) &&
                                     ryf_target_destroy(target) == RYF_OK;
                          }),
                  "exit 0")
            << turn << " of " << turns;
        EXPECT_EQ(fork_at(turn, set_up_initiator,
                          [&] {
                              return refused(ryf_initiator_setup(initiator, &config)) &&
                                     refused(ryf_initiator_make_progress(initiator)) &&
                                     ryf_initiator_destroy(initiator) == RYF_OK;
                          }),
                  "exit 0")
            << turn << " of " << turns;
        destroy();
    }
}

TEST_F(FlowForks, AChildSetsUpWhatNobodyIsSettingUp) {
    Ring ring(1, 100);
    const ryf_config config = config_for(tcp, ring.regions);
    ryf_initiator* initiator = nullptr;
    ASSERT_RYF(ryf_initiator_create(instance_.handle, &initiator));
    Child child(Child::End::at_once, [&] {
        return ryf_initiator_setup(initiator, &config) == RYF_OK && ryf_initiator_destroy(initiator) == RYF_OK
                   ? 0
                   : 1;
    });
    EXPECT_EQ(child.outcome(), "exit 0");
    EXPECT_RYF(ryf_initiator_setup(initiator, &config));
    EXPECT_RYF(ryf_initiator_destroy(initiator));
}

/// Lists may be half of what they were and half of what they will be.
TEST_F(FlowForks, InTheMiddleOfAddingATargetTheChildMayDestroyTheInitiator) {
    Target first(instance_, tcp, 1, 100), second(instance_, tcp, 1, 100);
    long turns = 1, forks = 0;
    for (long turn = -1; turn < turns && !HasFailure(); ++turn) {
        Initiator initiator(instance_, tcp, 1, 100);
        initiator.add(first);
        const auto add = [&] { EXPECT_RYF(ryf_initiator_add_target(initiator.handle, second.info)); };
        if (turn < 0) {
            turns = turns_of(add);
            continue;
        }
        const std::string outcome = fork_at(turn, add, [&] {
            return refused(ryf_initiator_add_target(initiator.handle, second.info)) &&
                   refused(ryf_initiator_transfer_grain(initiator.handle, 0)) &&
                   ryf_initiator_destroy(initiator.handle) == RYF_OK;
        });
        if (outcome.empty()) continue;  // it took fewer
        ++forks;
        EXPECT_EQ(outcome, "exit 0") << turn << " of " << turns;
        initiator.send(0, static_cast<unsigned char>(turn));
        EXPECT_TRUE(first.ring.holds(first.next().index, static_cast<unsigned char>(turn)));
    }
    EXPECT_GT(forks, 10);
}

}  // namespace
}  // namespace railyard::flow::test
