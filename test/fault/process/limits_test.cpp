// A process that runs out of file descriptors: errors that name the limit and the remedy, and engines that go
// on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>

#include "common/shortage.h"
#include "few_files.h"
#include "left_open.h"
#include "log_lines.h"
#include "manager/registration.h"
#include "traffic.h"

namespace railyard::test {
namespace {

TEST(Shortage, NamesTheLimitOnlyWhereItIsReached) {
    EXPECT_EQ(shortage(), "");
    {
        const FewFiles few(0);
        EXPECT_NE(shortage().find("ulimit -n"), std::string::npos) << shortage();
    }
    EXPECT_EQ(shortage(), "");
}

class LimitsTest : public testing::TestWithParam<Fabric> {};

TEST_P(LimitsTest, AnEngineThatGetsNoFilesSaysSoAndLeavesNone) {
    { const auto warm_up = make_engine("warm up", GetParam()); }
    const auto before = open_files();
    unsigned refused = 0;
    for (unsigned left = 0; left < 200; ++left) {
        try {
            const FewFiles few(left);
            const auto engine = make_engine("alpha", GetParam());
            break;
        } catch (const Error& error) {
            ++refused;
            EXPECT_EQ(error.status(), Status::backend);
            // Where it fails on the way, what it had open is closed by the time the error is made, so that
            // the number that was too low is not always to be told; the first step always does.
            if (left == 0) {
                EXPECT_NE(std::string(error.what()).find("ulimit -n"), std::string::npos) << error.what();
            }
            EXPECT_EQ(open_files(), before) << "with " << left << " left: " << error.what();
        }
    }
    EXPECT_GT(refused, 0u) << "engines without descriptors?";
    EXPECT_LT(refused, 200u);
    Traffic(GetParam(), 65536).round();
    EXPECT_EQ(open_files(), before);
}

TEST_P(LimitsTest, AnEngineWithoutFilesGoesOnOnceThereAreSome) {
    Traffic traffic(GetParam(), 65536, {{"connect_timeout_ms", "1500"}});
    {
        const FewFiles few(0);
        std::vector<std::uint8_t> bytes(65536);
        try {
            const auto region = traffic.pair.a->register_memory(reinterpret_cast<std::uint64_t>(bytes.data()),
                                                                bytes.size(), 0);
            traffic.pair.a->deregister_memory(region);
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("ulimit -n"), std::string::npos) << error.what();
        }
        // The first transfer connects, where the provider has connections.
        Status status = traffic.post();
        if (status == Status::in_progress) status = traffic.pair.wait(*traffic.transfer);
        EXPECT_TRUE(status == Status::ok || status == Status::remote_disconnect || status == Status::backend)
            << to_string(status);
    }
    // What was refused may have left a notification on its way, and paths that are found to be well later.
    bool again = false;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!again && std::chrono::steady_clock::now() < limit) {
        Status status = traffic.post();
        if (status == Status::in_progress) status = traffic.pair.wait(*traffic.transfer);
        again = status == Status::ok;
    }
    EXPECT_TRUE(again);
    EXPECT_TRUE(traffic.target.bytes == traffic.source.bytes);
}

/// Else peers could be told that they may write to it, and the NIC or the kernel would refuse them later.
TEST_P(LimitsTest, MemoryThatMayNotBeWrittenToIsNotTakenForOtherMemoryWithoutFiles) {
    const auto engine = make_engine("alpha", GetParam());
    constexpr std::size_t size = 4096;
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto address = reinterpret_cast<std::uint64_t>(mapped);
    {
        const FewFiles few(0);
        expect_error(Status::backend, "ulimit -n",
                     [&] { static_cast<void>(engine->register_memory(address, size, 0)); });
    }
    const auto region = engine->register_memory(address, size, 0);
    EXPECT_FALSE(region->writable);
    engine->deregister_memory(region);
    munmap(mapped, size);
}

/// What waitpid() says of a child that may write `bytes` into a file at most, whose files whoever passes that
/// grows at the cost of SIGXFSZ, and that does this.
int end_with_file_limit(rlim_t bytes, const std::function<bool()>& does) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{bytes, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        _exit(does() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

TEST(FileSize, AnEngineBelowTheLimitReachesItsHostOverTheFabricAndSaysSo) {
    const int status = end_with_file_limit(1 << 20, [] {
        const LogLines log;
        const auto engine = make_engine("alpha", {"tcp", 1, false, true});
        return LogLines::contain("over the fabric") && LogLines::contain("ulimit -f");
    });
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FileSize, AnEngineOverShmBelowTheLimitIsRefusedAndSaysWhy) {
    const int status = end_with_file_limit(1 << 20, [] {
        try {
            const auto engine = make_engine("alpha", {"shm", 1, false, false});
        } catch (const Error& error) {
            return std::string(error.what()).find("ulimit -f") != std::string::npos;
        }
        return false;
    });
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LimitsTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 2, true}, Fabric{"tcp", 1, false}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
