#include "fabric/peer_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "fabric/direct_access.h"
#include "fabric/shm_names.h"

namespace railyard::fabric {
namespace {

/// A process that has the shared memory `suffix` of its own number mapped, as an endpoint of shm has.
class Mapping {
  public:
    explicit Mapping(const char* suffix) {
        int ready[2];
        if (pipe(ready) != 0) return;
        pid_ = fork();
        if (pid_ == 0) {
            const int fd = shm_open((std::to_string(getpid()) + suffix).c_str(), O_CREAT | O_RDWR, 0600);
            const bool mapped =
                ftruncate(fd, 4096) == 0 && mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
            if (write(ready[1], mapped ? "y" : "n", 1) != 1) _exit(1);
            pause();
            _exit(0);
        }
        char mapped = 'n';
        EXPECT_EQ(read(ready[0], &mapped, 1), 1);
        EXPECT_EQ(mapped, 'y');
        close(ready[0]);
        close(ready[1]);
        name_ = std::to_string(pid_) + suffix;
    }
    ~Mapping() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        shm_unlink(name_.c_str());
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    void end() const { kill(pid_, SIGKILL); }  // and stays as a zombie
    [[nodiscard]] std::string address() const { return "fi_shm://" + name_ + std::string("\0rest", 5); }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
    std::string name_;
};

TEST(PeerProcess, SeesTheEndOfTheProcessBehindAnEndpoint) {
    const Mapping peer(":0:0");
    const PeerProcess process(peer.address());
    EXPECT_EQ(process_of(peer.address()), peer.pid());
    ASSERT_TRUE(process.watched());
    EXPECT_FALSE(process.ended());
    peer.end();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!process.ended() && std::chrono::steady_clock::now() < limit)
        usleep(100);
    EXPECT_TRUE(process.ended());
}

TEST(PeerProcess, AProcessThatOnlyHasTheNumberIsNotTheOne) {
    const Mapping other(":0:0");
    for (const char* memory : {":0:1", ":0:", ":0"}) {
        const PeerProcess process("fi_shm://" + std::to_string(other.pid()) + memory);
        EXPECT_FALSE(process.watched()) << memory;
        EXPECT_FALSE(process.ended());
    }
}

TEST(PeerProcess, NobodyIsWatchedWhereThereIsNobody) {
    for (const std::string& address :
         {std::string(), std::string("fi_sockaddr_in://127.0.0.1:80"), std::string("fi_shm://x"),
          std::string("fi_shm://-1:0:0"), "fi_shm://" + std::to_string(getpid()) + ":0:0"}) {
        const PeerProcess process(address);
        EXPECT_FALSE(process.watched()) << address;
        EXPECT_FALSE(process.ended()) << address;
    }
}

TEST(PeerProcess, KnowsItsOwn) {
    const Mapping other(":0:0");
    EXPECT_TRUE(PeerProcess(shm_name_of_this_process() + ":0:0").is_ours());
    EXPECT_FALSE(PeerProcess("fi_shm://" + std::to_string(getpid()) + ":0:0").is_ours())
        << "another's number";
    EXPECT_FALSE(PeerProcess(shm_name_of_this_process()).is_ours());
    EXPECT_FALSE(PeerProcess(other.address()).is_ours());
    EXPECT_FALSE(PeerProcess("fi_sockaddr_in://127.0.0.1:80").is_ours());
    EXPECT_FALSE(PeerProcess(std::string_view()).is_ours());
}

TEST(PeerProcess, OnlyWhoHasTheEndpointMappedIsAccessed) {
    const Mapping peer(":0:0"), other(":0:1");
    if (!may_access_process_of(peer.address()))
        GTEST_SKIP() << "the kernel lets nobody reach another process";
    EXPECT_EQ(process_behind(peer.address()), Seen::here);
    const std::string not_its_own = "fi_shm://" + std::to_string(other.pid()) + ":0:0";
    EXPECT_EQ(process_behind(not_its_own), Seen::elsewhere);
    EXPECT_FALSE(may_access_process_of(not_its_own));
    const std::string nobodys = "fi_shm://" + std::to_string(peer.pid()) + "-0123456789abcdef:0:0";
    EXPECT_FALSE(may_access_process_of(nobodys));
    EXPECT_TRUE(may_access_process_of(shm_name_of_this_process() + ":0:0"));
    EXPECT_FALSE(may_access_process_of("fi_shm://" + std::to_string(getpid()) + ":0:0"))
        << "another's number";
}

}  // namespace
}  // namespace railyard::fabric
