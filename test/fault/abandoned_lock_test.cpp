// A peer on shm that is killed while it holds the lock of its endpoint, which each post to it takes.
#include <signal.h>

#include <filesystem>

#include "fabric/lock_rescue.h"
#include "peers.h"
#include "shared_memory.h"

namespace railyard::test {
namespace {

/// The address of each shm endpoint of the process.
std::vector<std::string> endpoints_of(pid_t process) {
    std::vector<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        if (is_shared_memory_of(process, file.path()))
            found.push_back("fi_shm://" + file.path().filename().string());
    return found;
}

class AbandonedLocks : public testing::TestWithParam<Fabric>, protected Initiator {
  protected:
    void SetUp() override {
        has_thread_ = GetParam().progress_thread;
        engine_ = make_engine("alpha", GetParam(), {{"keepalive_ms", "0"}});  // nobody posts but us
        victim_ = std::make_unique<FarSide>(*engine_, GetParam(), "beta", size);
        victim_->meet();
        write_ = victim_->prepare(Operation::write, size);
        ASSERT_EQ(run(*write_), Status::ok);
        for (const std::string& address : endpoints_of(victim_->process->pid()))
            locks_.emplace_back(address);
        if (locks_.empty() || !locks_[0].seen())
            GTEST_SKIP() << "the endpoints of this libfabric have no lock that is known";
    }

    /// All or none. The process stands still afterwards, or goes on.
    bool take_all() {
        victim_->process->send_signal(SIGSTOP);
        std::size_t taken = 0;
        while (taken < locks_.size() && locks_[taken].try_take())
            ++taken;
        if (taken == locks_.size()) return true;
        for (std::size_t i = 0; i < taken; ++i)
            locks_[i].release();
        victim_->process->send_signal(SIGCONT);
        return false;
    }

    static constexpr std::size_t size = 65536;
    std::unique_ptr<FarSide> victim_;
    Transfer* write_ = nullptr;
    std::vector<fabric::EndpointLock> locks_;
};

TEST_P(AbandonedLocks, WhoWaitsForTheLockOfAKilledPeerGoesOn) {
    // As if its process had taken them: it stands still meanwhile.
    EXPECT_TRUE(until([&] { return take_all(); })) << "never free";
    std::this_thread::sleep_for(milliseconds(300));
    for (const fabric::EndpointLock& lock : locks_)
        EXPECT_TRUE(lock.held()) << "released though its process lives";
    victim_->process->send_signal(SIGKILL);
    const auto killed = Clock::now();
    Status status = Status::ok;
    while (status == Status::ok && Clock::now() - killed < std::chrono::seconds(10))
        status = run(*write_);
    EXPECT_EQ(status, Status::remote_disconnect);
    EXPECT_LT(Clock::now() - killed, milliseconds(4000));
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, AbandonedLocks,
                         testing::Values(Fabric{"shm", 1, true}, Fabric{"shm", 2, false}), fabric_name);

}  // namespace
}  // namespace railyard::test
