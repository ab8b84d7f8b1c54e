// What keeps threads out of libfabric once the process takes it down.
#include "rail/roles_at_exit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../role_elsewhere.h"

namespace railyard {
namespace {

using std::chrono::milliseconds;

/// The calling thread is the one that exits.
class RolesAtExitTest : public testing::Test {
  protected:
    ThreadRole first_, second_;
};

TEST_F(RolesAtExitTest, AreNobodysButTheExitingThreads) {
    {
        const RoleAtExit first(first_), second(second_);
        keep_roles_at_exit();
    }
    EXPECT_FALSE(is_taken_elsewhere(first_) || is_taken_elsewhere(second_));
    const RoleGuard guard(first_);  // an engine that a destructor ends
}

TEST_F(RolesAtExitTest, OneThatHasGoneIsLeftAlone) {
    { const RoleAtExit gone(first_); }
    const RoleAtExit second(second_);
    keep_roles_at_exit();
    EXPECT_TRUE(is_taken_elsewhere(first_));
    EXPECT_FALSE(is_taken_elsewhere(second_));
}

/// exit() in a signal handler that has interrupted who holds one, say.
TEST_F(RolesAtExitTest, OneThatCannotBeHadTakesNothingFromTheOthers) {
    const RoleAtExit second(second_), first(first_);
    std::atomic<bool> held{false};
    const RoleGuard for_ever(first_);
    std::thread holder([&] {
        const RoleGuard guard(second_);
        held.store(true);
        std::this_thread::sleep_for(milliseconds(20));
    });
    while (!held.load())
        std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    keep_roles_at_exit();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(400));
    holder.join();
    EXPECT_FALSE(is_taken_elsewhere(second_));
}

}  // namespace
}  // namespace railyard
