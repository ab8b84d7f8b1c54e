// Registration on several rails at once: all or none, in order, by several threads where that pays.
#include "manager/parallel_registration.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

namespace railyard {
namespace {

/// What the fake rails of one test share.
struct Observed {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<int> calls{0}, registered{0}, inside{0}, most_inside{0};
    int wanted_inside = 1;  ///< a registration waits until so many are going on, if they ever are
};

class FakeRail final : public Rail {
  public:
    FakeRail(Observed& observed, std::uint64_t key)
        : Rail("rail" + std::to_string(key)), observed_(observed), key_(key) {}

    RegisteredMemory register_memory(const MemoryRange& range) override {
        ++observed_.calls;
        {
            const std::lock_guard lock(observed_.mutex);
            observed_.threads.insert(std::this_thread::get_id());
        }
        if (fails) throw Error(Status::backend, name() + " is full");
        const int now = ++observed_.inside;
        for (int most = observed_.most_inside; most < now;)
            observed_.most_inside.compare_exchange_weak(most, now);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (observed_.most_inside < observed_.wanted_inside && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        --observed_.inside;
        ++observed_.registered;
        Observed& observed = observed_;
        RegisteredMemory memory;
        memory.owner = std::shared_ptr<void>(this, [&observed](void*) { --observed.registered; });
        memory.key = key_ + (range.writable ? 0 : 1000);
        return memory;
    }
    [[nodiscard]] std::string address() const override { return ""; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return 1; }

    bool fails = false;

  protected:
    bool serve(bool) noexcept override { return false; }
    PeerAddress do_insert_peer(std::string_view) override { return no_address; }
    void do_remove_peer(PeerAddress) noexcept override {}

  private:
    Observed& observed_;
    const std::uint64_t key_;
};

class ParallelRegistration : public testing::Test {
  protected:
    ParallelRegistration() {
        for (std::uint64_t i = 0; i < 8; ++i)
            rails_.push_back(std::make_unique<FakeRail>(observed_, i));
    }
    std::vector<RegisteredMemory> run(std::uint64_t length, bool writable = true) {
        std::vector<Rail*> all;
        for (const auto& rail : rails_)
            all.push_back(rail.get());
        return register_on_rails(all, {0x1000, length, writable});
    }
    Observed observed_;
    std::vector<std::unique_ptr<FakeRail>> rails_;
};

constexpr std::uint64_t large = parallel_registration_bytes;

TEST_F(ParallelRegistration, ComesInTheOrderOfTheRails) {
    for (const std::uint64_t length : {std::uint64_t{1}, large}) {
        const auto memory = run(length, length == 1);
        ASSERT_EQ(memory.size(), 8u);
        for (std::uint64_t i = 0; i < 8; ++i)
            EXPECT_EQ(memory[i].key, i + (length == 1 ? 0 : 1000));
        EXPECT_EQ(observed_.registered, 8);
    }
    EXPECT_EQ(observed_.registered, 0);
}

TEST_F(ParallelRegistration, ASmallRangeIsTheCallersAlone) {
    run(large - 1);
    EXPECT_EQ(observed_.threads, std::set<std::thread::id>{std::this_thread::get_id()});
    EXPECT_EQ(observed_.most_inside, 1);
}

TEST_F(ParallelRegistration, ALargeRangeIsRegisteredOnSeveralRailsAtOnce) {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
    observed_.wanted_inside = 2;
    run(large);
    EXPECT_GE(observed_.most_inside, 2);
    EXPECT_EQ(observed_.calls, 8);
    EXPECT_LE(observed_.threads.size(), std::thread::hardware_concurrency());
}

TEST_F(ParallelRegistration, AFailureOnAnyRailLeavesNothing) {
    for (const std::uint64_t length : {std::uint64_t{4096}, large}) {
        for (const auto& rail : rails_) {
            rail->fails = true;
            try {
                run(length);
                ADD_FAILURE() << "registered";
            } catch (const Error& error) {
                EXPECT_EQ(error.status(), Status::backend);
                EXPECT_EQ(std::string(error.what()), rail->name() + " is full");
            }
            rail->fails = false;
            EXPECT_EQ(observed_.registered, 0) << rail->name() << " failed";
        }
    }
    EXPECT_EQ(run(large).size(), 8u);
}

TEST_F(ParallelRegistration, AfterAFailureNoFurtherRailIsAsked) {
    rails_[2]->fails = true;
    EXPECT_THROW(run(4096), Error);
    EXPECT_EQ(observed_.calls, 3);
}

/// Where the process may not start a thread, registration goes on without.
TEST_F(ParallelRegistration, NeedsNoThreads) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit none{0, 0};
        setrlimit(RLIMIT_NPROC, &none);
        // Root may start threads all the same.
        const bool limited = setgid(65534) == 0 && setuid(65534) == 0;
        _exit(limited && run(large).size() == 8 && observed_.threads.size() == 1 ? 0 : limited ? 1 : 77);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "not root";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ParallelRegistration, NoRailsNoMemory) {
    rails_.clear();
    EXPECT_TRUE(run(4096).empty());
    EXPECT_TRUE(run(large).empty());
}

}  // namespace
}  // namespace railyard
