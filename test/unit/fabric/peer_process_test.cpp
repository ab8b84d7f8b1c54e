#include "fabric/peer_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

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
    EXPECT_TRUE(PeerProcess("fi_shm://" + std::to_string(getpid()) + ":0:0").is_ours());
    EXPECT_FALSE(PeerProcess(other.address()).is_ours());
    EXPECT_FALSE(PeerProcess("fi_sockaddr_in://127.0.0.1:80").is_ours());
    EXPECT_FALSE(PeerProcess(std::string_view()).is_ours());
}

}  // namespace
}  // namespace railyard::fabric
