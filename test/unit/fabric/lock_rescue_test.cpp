#include "fabric/lock_rescue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace railyard::fabric {
namespace {

/// Shared memory laid out as libfabric 1.17 lays out an endpoint's.
class EndpointLockTest : public testing::Test {
  protected:
    EndpointLockTest() {
        const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
        EXPECT_EQ(ftruncate(file, size), 0);
        memory_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        close(file);
        put(0, std::uint8_t{4});
        put(4, static_cast<int>(getpid()));
        pthread_spin_init(lock(), PTHREAD_PROCESS_SHARED);
        put(40, size);
    }
    ~EndpointLockTest() override {
        munmap(memory_, size);
        shm_unlink(name_.c_str());
    }

    template <class Value>
    void put(std::size_t at, Value value) {
        std::memcpy(memory_ + at, &value, sizeof value);
    }
    pthread_spinlock_t* lock() { return reinterpret_cast<pthread_spinlock_t*>(memory_ + 24); }

    static constexpr std::size_t size = 8192;
    const std::string name_ = std::to_string(getpid()) + ":0:77";
    const std::string address_ = "fi_shm://" + name_;
    char* memory_ = nullptr;
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

}  // namespace
}  // namespace railyard::fabric
