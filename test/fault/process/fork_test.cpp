// fork() under a live engine: the parent goes on as if nothing had been, whatever the child does; the child
// is refused in words, and ends.
#include <gtest/gtest.h>

#include <filesystem>

#include "child.h"
#include "sanitized.h"
#include "shared_memory.h"
#include "traffic.h"

namespace railyard::test {
namespace {

class ForkTest : public testing::TestWithParam<Fabric> {};

/// Calls on inherited engines that were not refused as they should be.
class Refusals {
  public:
    template <class Call>
    void thrown(const char* name, Call call) {
        try {
            call();
        } catch (const Error& error) {
            const bool worded = std::string(error.what()).find("fork") != std::string::npos;
            return note(name, error.status() == Status::not_allowed && worded);
        }
        note(name, false);
    }
    void returned(const char* name, Status status) { note(name, status == Status::not_allowed); }
    [[nodiscard]] int missing() const { return missing_; }

  private:
    void note(const char* name, bool refused) {
        if (refused) return;
        std::fprintf(stderr, "%s was not refused in the child\n", name);
        ++missing_;
    }
    int missing_ = 0;
};

int use_everything(Traffic& traffic) {
    Engine& engine = *traffic.pair.a;
    Refusals refusals;
    const LocalDescriptor from = traffic.source.local(0, 64);
    const RemoteDescriptor to{traffic.target.address(), 64, &traffic.remote};
    std::vector<Notification> got;
    refusals.thrown("register_memory", [&] { engine.register_memory(traffic.source.address(), 64, 0); });
    refusals.thrown("deregister_memory", [&] { engine.deregister_memory(traffic.source.region); });
    refusals.thrown("memory_metadata",
                    [&] { static_cast<void>(engine.memory_metadata(*traffic.source.region)); });
    refusals.thrown("load_remote_memory", [&] { engine.load_remote_memory("beta", "", 0, 0); });
    refusals.thrown("local_as_remote", [&] { engine.local_as_remote(traffic.source.region); });
    refusals.thrown("connection_info", [&] { static_cast<void>(engine.connection_info()); });
    refusals.thrown("load_connection_info", [&] { engine.load_connection_info("beta", ""); });
    refusals.thrown("connect", [&] { engine.connect("beta"); });
    refusals.thrown("disconnect", [&] { engine.disconnect("beta"); });
    refusals.thrown("peers", [&] { static_cast<void>(engine.peers()); });
    refusals.thrown("prepare", [&] {
        engine.prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    });
    refusals.thrown("take_notifications", [&] { engine.take_notifications(got); });
    refusals.thrown("send_notification", [&] { engine.send_notification("beta", "from the child"); });
    refusals.returned("post", engine.post(*traffic.transfer));
    refusals.returned("poll", engine.poll(*traffic.transfer));
    refusals.returned("estimate", engine.estimate(*traffic.transfer).duration.count() == 0
                                      ? Status::not_allowed
                                      : Status::ok);
    refusals.returned("progress", engine.progress() ? Status::ok : Status::not_allowed);
    engine.release(traffic.transfer);
    return refusals.missing();
}

int destroy(Traffic& traffic) {
    traffic.source.region.reset();
    traffic.pair.b.reset();
    traffic.pair.a.reset();
    traffic.target.region.reset();
    return 0;
}

/// With the engine idle, then with a transfer under way.
void fork_under(Traffic& traffic, Child::End end, const std::function<int()>& body) {
    traffic.round();
    for (const bool in_flight : {false, true}) {
        SCOPED_TRACE(in_flight ? "in flight" : "idle");
        const Status posted = in_flight ? traffic.post() : Status::ok;
        Child child(end, body);
        if (in_flight) traffic.finish(posted);
        EXPECT_EQ(child.outcome([&] { traffic.round(); }), "exit 0");
        traffic.round();
    }
}

TEST_P(ForkTest, AChildThatLeavesAtOnceDisturbsNobody) {
    Traffic traffic(GetParam());
    fork_under(traffic, Child::End::at_once, [] { return 0; });
}

TEST_P(ForkTest, AChildThatExitsDisturbsNobody) {
    Traffic traffic(GetParam());
    fork_under(traffic, Child::End::with_destructors, [] { return 0; });
}

TEST_P(ForkTest, AChildThatStaysForAWhileDisturbsNobody) {
    Traffic traffic(GetParam());
    fork_under(traffic, Child::End::at_once, [] {
        usleep(200'000);
        return 0;
    });
}

TEST_P(ForkTest, AChildIsRefusedEveryCall) {
    Traffic traffic(GetParam());
    fork_under(traffic, Child::End::at_once, [&] { return use_everything(traffic); });
}

TEST_P(ForkTest, AChildMayDestroyWhatItInherited) {
    Traffic traffic(GetParam());
    fork_under(traffic, Child::End::with_destructors, [&] { return destroy(traffic); });
}

TEST_P(ForkTest, AChildLeavesStatisticsFileAndSocketAlone) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("fork-" + std::to_string(getpid()) + ".prom");
    {
        Traffic traffic(
            GetParam(), std::size_t{64} << 10,
            {{"stats_file", file.string() + ".%a"}, {"stats_socket", file.string() + ".%a.sock"}});
        const std::filesystem::path socket = file.string() + ".alpha.sock";
        const std::filesystem::path written = file.string() + ".alpha";
        ASSERT_TRUE(traffic.pair.until([&] { return std::filesystem::exists(written); }));
        for (const bool destroys : {false, true}) {
            bool stayed = true;
            Child child(Child::End::with_destructors, [&] { return destroys ? destroy(traffic) : 0; });
            const auto look = [&] {
                stayed = std::filesystem::exists(written) && std::filesystem::exists(socket) && stayed;
            };
            EXPECT_EQ(child.outcome(look), "exit 0");
            look();
            EXPECT_TRUE(stayed) << (destroys ? "destroyed" : "left");
        }
        traffic.round();
    }
    EXPECT_FALSE(std::filesystem::exists(file.string() + ".alpha"));
    EXPECT_FALSE(std::filesystem::exists(file.string() + ".alpha.sock"));
}

TEST_P(ForkTest, ForksAtAnyMomentEndAndHarmNobody) {
    Traffic traffic(GetParam());
    for (int turn = 0; turn < 20; turn += sanitized ? 4 : 1) {
        const Status posted = traffic.post();
        for (int i = 0; i < turn; ++i)
            traffic.pair.b->progress();
        Child child(Child::End::with_destructors, [&] { return use_everything(traffic) + destroy(traffic); });
        traffic.finish(posted);
        ASSERT_EQ(child.outcome(), "exit 0") << turn;
    }
}

TEST_P(ForkTest, EnginesOfTheParentEndAndBeginWhileAChildLives) {
    Child* child = nullptr;
    {
        Traffic traffic(GetParam());
        traffic.round();
        child = new Child(Child::End::with_destructors, [&] {
            usleep(500'000);
            return destroy(traffic);
        });
        traffic.round();
    }
    Traffic again(GetParam());
    again.round();
    EXPECT_EQ(child->outcome([&] { again.round(); }), "exit 0");
    delete child;
    again.round();
}

/// Closed endpoints of shm are kept until the last one of their process is closed, and the parent's are none
/// of the child's.
TEST_P(ForkTest, EnginesOfAChildLeaveNoSharedMemory) {
    if (sanitized) GTEST_SKIP() << "a child starts no threads there, or waits for a lock of another one's";
    Traffic traffic(GetParam());
    traffic.round();
    for (const bool destroys : {true, false}) {
        SCOPED_TRACE(destroys ? "destroyed" : "open at exit");
        Child child(Child::End::with_destructors, [&] {
            auto* const own = new Traffic(GetParam());
            own->round();
            const std::size_t open = shared_memory_of(getpid());
            const bool over_shm = std::string_view(GetParam().provider) == "shm";
            if (over_shm && open == 0) return 2;  // nothing would be tested
            if (destroys) delete own;
            if (destroys && shared_memory_of(getpid()) != 0) return 3;
            return testing::Test::HasFailure() ? 1 : 0;
        });
        const pid_t process = child.process();
        EXPECT_EQ(child.outcome(), "exit 0");
        EXPECT_EQ(shared_memory_of(process), 0u);
        remove_shared_memory_of(process);
        traffic.round();
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ForkTest, testing::ValuesIn(process_fabrics()), fabric_name);

}  // namespace
}  // namespace railyard::test
