#include "fabric/lock_rescue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "allocations_left.h"
#include "common/fork_watch.h"
#include "fault/process/child.h"
#include "sanitized.h"

namespace railyard::fabric {
namespace {

/// Shared memory of a process, laid out as libfabric 1.17 lays out an endpoint's.
class EndpointMemory {
  public:
    explicit EndpointMemory(pid_t process) : name_(std::to_string(process) + ":0:77") {
        const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
        EXPECT_EQ(ftruncate(file, size), 0);
        memory_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        close(file);
        put(0, std::uint8_t{4});
        put(4, static_cast<int>(process));
        pthread_spin_init(lock(), PTHREAD_PROCESS_SHARED);
        put(40, size);
    }
    ~EndpointMemory() {
        munmap(memory_, size);
        shm_unlink(name_.c_str());
    }
    EndpointMemory(const EndpointMemory&) = delete;
    EndpointMemory& operator=(const EndpointMemory&) = delete;

    template <class Value>
    void put(std::size_t at, Value value) {
        std::memcpy(memory_ + at, &value, sizeof value);
    }
    pthread_spinlock_t* lock() { return reinterpret_cast<pthread_spinlock_t*>(memory_ + 24); }

    [[nodiscard]] std::string address() const { return "fi_shm://" + name_; }

    static constexpr std::size_t size = 8192;

  private:
    const std::string name_;
    char* memory_ = nullptr;
};

class EndpointLockTest : public testing::Test, protected EndpointMemory {
  protected:
    EndpointLockTest() : EndpointMemory(getpid()) {}

    const std::string address_ = address();
};

/// A process with such memory, and whoever may be watched by it.
class Owner {
  public:
    Owner() {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        pid_ = fork();
        if (pid_ == 0) {
            const EndpointMemory own(getpid());
            if (write(ready[1], "", 1) != 1) _exit(1);
            for (;;)
                pause();
        }
        char byte = 0;
        EXPECT_EQ(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        close(ready[1]);
        memory.emplace(pid_);
        EXPECT_EQ(pthread_spin_trylock(memory->lock()), 0);
    }
    ~Owner() {
        end();
        waitpid(pid_, nullptr, 0);
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    void end() const { kill(pid_, SIGKILL); }

    std::optional<EndpointMemory> memory;  ///< its lock is held

  private:
    pid_t pid_ = -1;
};

TEST_F(EndpointLockTest, IsTheLockThatOthersTake) {
    EndpointLock seen(address_);
    ASSERT_TRUE(seen.seen());
    EXPECT_FALSE(seen.held());
    ASSERT_EQ(pthread_spin_trylock(lock()), 0);
    EXPECT_TRUE(seen.held());
    EXPECT_FALSE(seen.try_take());
    seen.release();
    EXPECT_FALSE(seen.held());
    EXPECT_TRUE(seen.try_take());
    EXPECT_NE(pthread_spin_trylock(lock()), 0);
    seen.release();
    EXPECT_EQ(pthread_spin_trylock(lock()), 0);
    pthread_spin_unlock(lock());
}

TEST_F(EndpointLockTest, IsNotSeenInALayoutThatIsNotKnown) {
    for (const int version : {3, 9}) {
        put(0, static_cast<std::uint8_t>(version));
        EXPECT_FALSE(EndpointLock(address_).seen()) << version;
    }
}

TEST_F(EndpointLockTest, IsSeenBehindWhatLaterVersionsHaveForXpmem) {
    put(0, std::uint8_t{8});
    put(40, std::size_t{0});
    put(72, size);
    put(56, static_cast<int>(*lock()));
    ASSERT_EQ(pthread_spin_trylock(lock()), 0);
    EndpointLock seen(address_);
    ASSERT_TRUE(seen.seen());
    EXPECT_FALSE(seen.held()) << "not the one at 24";
}

TEST_F(EndpointLockTest, IsNotSeenWhereTheMemoryNamesAnotherProcess) {
    put(4, static_cast<int>(getpid()) + 1);
    EXPECT_FALSE(EndpointLock(address_).seen());
}

TEST_F(EndpointLockTest, IsNotSeenWhereTheMemoryHasAnotherSize) {
    put(40, size + 4096);
    EXPECT_FALSE(EndpointLock(address_).seen());
}

TEST_F(EndpointLockTest, IsNotSeenWithoutSuchMemory) {
    for (const std::string& address :
         {std::string(), address_ + "8", std::string("fi_sockaddr_in://127.0.0.1:80")})
        EXPECT_FALSE(EndpointLock(address).seen()) << address;
}

TEST(LockRescue, LooksAfterNoProcessThatIsNotWatched) {
    const std::string ours[] = {"fi_shm://" + std::to_string(getpid()) + ":0:0"};
    EXPECT_FALSE(LockRescue(PeerProcess(ours[0]), ours).watches());
}

/// Its process would be looked at by the thread of the others when it is there no more.
TEST(LockRescue, LooksAfterNothingThatThereWasNoMemoryFor) {
    Owner owner, other;
    const std::string address[] = {owner.memory->address()}, other_address[] = {other.memory->address()};
    const PeerProcess process(address[0]), other_process(other_address[0]);
    const LockRescue others(other_process, other_address);
    ASSERT_TRUE(process.watched());
    ASSERT_TRUE(others.watches());
    std::size_t failures = 0;
    {
        std::array<std::optional<LockRescue>, 10>
            rescues;  // each at a place of its own, which it is known by
        for (bool watches = false; !watches && failures < rescues.size(); failures += watches ? 0 : 1) {
            allocations_left = static_cast<long>(failures);
            watches = rescues[failures].emplace(process, address).watches();
            allocations_left = -1;
        }
    }
    EXPECT_GE(failures, 3u) << "the locks, how long each was held, and room for both in the list";
    EXPECT_LT(failures, 10u);
    owner.end();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!process.ended() && std::chrono::steady_clock::now() < limit)
        usleep(100);
    other.end();
    // It looks at all of them in turn.
    const EndpointLock lock(address[0]), other_lock(other_address[0]);
    while (other_lock.held() && std::chrono::steady_clock::now() < limit)
        usleep(100);
    EXPECT_FALSE(other_lock.held());
    EXPECT_TRUE(lock.held()) << "released by who was not to look";
}

/// A thread that its parent has is none of a child's.
TEST(LockRescue, LooksAfterWhatAChildWatches) {
    if (test::sanitized) GTEST_SKIP() << "a child starts no threads there, or waits for a lock of another's";
    watch_forks();
    Owner owner;
    const std::string address[] = {owner.memory->address()};
    const PeerProcess process(address[0]);
    const LockRescue parents(process, address);
    ASSERT_TRUE(parents.watches());
    Owner other;
    const std::string other_address[] = {other.memory->address()};
    test::Child child(test::Child::End::at_once, [&] {
        const PeerProcess watched(other_address[0]);
        const LockRescue own(watched, other_address);
        const EndpointLock lock(other_address[0]);
        if (!own.watches() || !lock.held()) return 2;
        other.end();
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (lock.held() && std::chrono::steady_clock::now() < limit)
            usleep(100);
        return lock.held() ? 1 : 0;
    });
    EXPECT_EQ(child.outcome(), "exit 0");
}

}  // namespace
}  // namespace railyard::fabric
