// The setting stats_file: what a running engine tells of its peers.
#include <filesystem>
#include <set>

#include "least_of.h"
#include "log_lines.h"
#include "stats_directory.h"

namespace railyard::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class LiveView : public testing::Test {
  protected:
    [[nodiscard]] ParamMap params() const {
        return {{"stats_file", directory_.pattern()}, {"keepalive_ms", "100"}};
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator{}));
    }
    [[nodiscard]] bool is_there(const std::string& agent) const {
        return fs::exists(directory_.path() / (agent + ".prom"));
    }
    [[nodiscard]] LiveReport read(const std::string& agent) const { return directory_.read(agent); }
    /// Of the peer, in alpha's file; nothing where it is not there.
    [[nodiscard]] std::optional<PeerReport> peer(const std::string& agent) const {
        for (const PeerReport& known : read("alpha").peers) {
            if (known.agent == agent) return known;
        }
        return std::nullopt;
    }

    const StatsDirectory directory_;
};

class LiveViewTest : public LiveView, public testing::WithParamInterface<Fabric> {};

/// 4 KiB from alpha to beta, once; the handle stays.
struct SmallWrite {
    SmallWrite(const Fabric& fabric, const ParamMap& extra)
        : pair(fabric, fabric, extra), source(*pair.a, 4096), target(*pair.b, 4096) {
        const auto remote = pair.publish(target);
        const LocalDescriptor from = source.local(0, 4096);
        const RemoteDescriptor to{target.address(), 4096, &remote};
        transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        EXPECT_EQ(pair.run(*transfer), Status::ok);
    }
    EnginePair pair;
    Buffer source, target;
    Transfer* transfer = nullptr;
};

TEST_P(LiveViewTest, TheFileFollowsAPeerFromItsLoadToItsEnd) {
    const auto started = std::chrono::steady_clock::now();
    {
        SmallWrite work(GetParam(), params());
        ASSERT_TRUE(work.pair.until([&] { return is_there("alpha") && is_there("beta"); }));
        LiveReport report = read("alpha");
        EXPECT_EQ(report.agent, "alpha");
        EXPECT_EQ(report.provider, work.pair.a->provider());
        EXPECT_EQ(report.pid, static_cast<std::uint64_t>(getpid()));
        EXPECT_EQ(report.rails.size(), work.pair.a->rail_count() + (GetParam().local_rail ? 1 : 0));
        EXPECT_TRUE(work.pair.until([&] {
            const auto beta = peer("beta");
            return beta && beta->state == PeerState::ready && beta->paths > 0 && beta->failed == 0;
        })) << "it never says that beta is ready";
        EXPECT_EQ(peer("beta")->nonce, read("beta").nonce);
        EXPECT_EQ(peer("beta")->on_host, GetParam().local_rail ? 1u : 0u);
        EXPECT_LE(peer("beta")->paths, work.pair.a->peers().at(0).paths);
        EXPECT_TRUE(work.pair.until([&] { return files() == 2; }));  // one that is being written has two
        const PeerReport before = *peer("beta");
        work.pair.b.reset();
        EXPECT_TRUE(work.pair.until([&] { return files() == 1; })) << "what has ended leaves its file";
        if (GetParam().provider == "tcp") {
            EXPECT_TRUE(work.pair.until([&] { return peer("beta")->state == PeerState::gone; }));
            EXPECT_GT(peer("beta")->failed, 0u);
        }
        EXPECT_EQ(peer("beta")->nonce, before.nonce);
        work.pair.a->release(work.transfer);
        work.pair.a->disconnect("beta");
        EXPECT_TRUE(work.pair.until([&] { return !peer("beta"); }));
    }
    EXPECT_EQ(files(), 0u);
    RecordProperty(
        "milliseconds",
        static_cast<int>(
            std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - started).count()));
}

TEST_P(LiveViewTest, ItIsWrittenOnceASecondWhateverHappens) {
    SmallWrite work(GetParam(), params());
    ASSERT_TRUE(work.pair.until([&] { return is_there("alpha"); }));
    const auto too_soon = [&] {
        std::set<std::uint64_t> times;
        EXPECT_TRUE(work.pair.until([&] {
            work.pair.run(*work.transfer);
            times.insert(read("alpha").written_ms);
            return times.size() == 3;
        }));
        std::int64_t most = 0;
        std::uint64_t before = 0;
        for (const std::uint64_t time : times) {
            most = std::max(most, 1000 - static_cast<std::int64_t>(time - before));
            before = time;
        }
        return most;
    };
    // Two clocks; what a busy machine writes late is followed too soon.
    EXPECT_LE(least_of(11, too_soon), 10);
    work.pair.a->release(work.transfer);
}

TEST_F(LiveView, WhereItCannotBeWrittenTheEngineSaysSoAndWorks) {
    const LogLines log;
    {
        SmallWrite work({"tcp", 1, true}, {{"stats_file", (directory_.path() / "none/%a").string()}});
        const auto end = std::chrono::steady_clock::now() + milliseconds(1200);
        while (std::chrono::steady_clock::now() < end)
            EXPECT_EQ(work.pair.run(*work.transfer), Status::ok);
        work.pair.a->release(work.transfer);
    }
    const auto logged = log.all();
    for (const char* agent : {"alpha", "beta"}) {
        EXPECT_EQ(std::count_if(logged.begin(), logged.end(),
                                [&](const std::string& line) {
                                    return line.find("stats_file") != std::string::npos &&
                                           line.find(std::string("none/") + agent) != std::string::npos;
                                }),
                  1);
    }
}

TEST_F(LiveView, ABadNameIsRefusedWithTheEngine) {
    expect_error(Status::invalid_param, "stats_file", [&] {
        make_engine("alpha", {"tcp", 1, false}, {{"stats_file", (directory_.path() / "%q").string()}});
    });
    EXPECT_EQ(files(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LiveViewTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 2, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
