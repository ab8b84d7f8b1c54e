// Which rails an engine opens, and with whom it may talk over them.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "common/log.h"
#include "engine/metadata.h"
#include "engine_pair.h"
#include "fabric/interfaces.h"
#include "log_lines.h"
#include "manager/registration.h"
#include "rail/host_card.h"

namespace railyard::test {
namespace {

/// A WRITE of `size` bytes from A to B with a notification; `rails`, where given, are those that the source
/// is on.
void write_and_compare(EnginePair& pair, std::size_t size, const RailSet* rails) {
    Buffer source(*pair.a, size), target(*pair.b, size);
    if (rails) {
        EXPECT_EQ(source.region->rails, *rails);
    }
    fill_pattern(source.bytes, 8);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "arrived");
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    EXPECT_EQ(pair.notifications(1).size(), 1u);
    pair.a->release(transfer);
}

TEST(AsymmetricRails, FourAgainstOneAndTwo) {
    for (int other : {1, 2}) {
        for (const auto& [left, right] : {std::pair{4, other}, std::pair{other, 4}}) {
            EnginePair pair(Fabric{"tcp", left, false}, Fabric{"tcp", right, false});
            write_and_compare(pair, (4 << 20) + 5, nullptr);
        }
    }
}

/// Data and messages arrive whatever carries them; which rail may carry data, the registration says.
void exchange(const ParamMap& extra, const RailSet& data_rails) {
    EnginePair pair({"tcp", 2, false}, {"tcp", 2, false}, extra);
    EXPECT_EQ(pair.a->rail_count(), data_rails.back() + 1u);
    write_and_compare(pair, 1 << 20, &data_rails);
}

TEST(ControlInterface, IsTheFirstRailAndCarriesDataWhereDevicesNameIt) {
    exchange({{"oob_interface", "lo"}}, {0, 1});
    expect_error(Status::backend, "oob_interface", [] {
        make_engine("alpha", {"tcp", 1, false}, {{"oob_interface", "nowhere0"}});
    });
}

TEST(ControlInterface, CarriesMessagesAloneWhereDevicesDoNotNameIt) {
    std::string other;
    for (const fabric::NetworkInterface& one : fabric::network_interfaces())
        if (one.up && !one.loopback) other = one.name;
    if (other.empty()) GTEST_SKIP() << "needs a network interface besides the loopback";
    exchange({{"oob_interface", other}}, {1, 2});
}

TEST(ControlInterface, HasNoEffectOverOtherProviders) {
    const auto engine = make_engine("alpha", {"shm", 1, false}, {{"oob_interface", "lo"}});
    EXPECT_EQ(engine->provider(), "shm");
    EXPECT_EQ(engine->rail_count(), 1u);
}

TEST(Providers, MetadataOfAnotherProviderIsRefused) {
    const auto a = make_engine("alpha", {"tcp", 1, false});
    const auto b = make_engine("beta", {"shm", 1, false});
    expect_error(Status::mismatch, "provider",
                 [&] { a->load_connection_info("beta", b->connection_info()); });
}

/// As over shm in two containers, or over tcp in two network namespaces.
TEST(Providers, APeerThatHasTheAddressOfAnEndpointOfOursIsRefused) {
    for (const char* const provider : {"tcp", "shm"}) {
        const auto a = make_engine("alpha", {provider, 2, false});
        const auto b = make_engine("beta", {provider, 2, false});
        ConnectionInfo theirs = decode_connection(b->connection_info());
        theirs.rails.back() = decode_connection(a->connection_info()).rails.back();
        expect_error(Status::mismatch, "our own endpoints",
                     [&] { a->load_connection_info("beta", encode(theirs)); });
        a->load_connection_info("beta", b->connection_info());
    }
}

TEST(Providers, OverShmAPeerOnAnotherHostIsTold) {
    const auto a = make_engine("alpha", {"shm", 1, false, true});
    const auto b = make_engine("beta", {"shm", 1, false, true});
    ConnectionInfo theirs = decode_connection(b->connection_info());
    const LogLines log;
    a->load_connection_info("beta", encode(theirs));
    EXPECT_FALSE(LogLines::contain("another host"));
    CardAddress card = decode_card_address(theirs.host);
    card.boot.front() ^= 1;
    theirs.host = encode(card);
    a->load_connection_info("beta", encode(theirs));
    EXPECT_TRUE(LogLines::contain("beta: is on another host"));
}

/// In a process of its own: what it changes stays there. The child's status says which expectation failed.
int in_child(const std::function<int()>& body) {
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

std::atomic<int> skipped_rails{0};
std::atomic<int> provider_lines{0};

TEST(Rails, ThoseThatDoNotOpenAreSkippedWithAWarning) {
    EXPECT_EQ(in_child([] {
                  log::set_sink([](log::Level level, const char* line) {
                      if (level == log::Level::warn && std::strstr(line, "skipped"))
                          skipped_rails.fetch_add(1);
                  });
                  // Each rail takes some ten descriptors.
                  const rlimit few{120, 120};
                  setrlimit(RLIMIT_NOFILE, &few);
                  const auto engine = make_engine("alpha", {"tcp", 64, false});
                  if (engine->rail_count() == 0 || engine->rail_count() >= 64) return 1;
                  return skipped_rails.load() > 0 ? 0 : 2;
              }),
              0);
}

TEST(Providers, LibfabricsLinesComeThroughOurLogOnRequest) {
    auto lines_with = [](const char* setting) {
        return in_child([&] {
            log::set_level(log::Level::trace);
            log::set_sink([](log::Level, const char* line) {
                if (std::strstr(line, "railyard net:") || std::strstr(line, "railyard tcp:"))
                    provider_lines.fetch_add(1);
            });
            const auto engine = make_engine("alpha", {"tcp", 1, false}, {{"libfabric_log", setting}});
            return provider_lines.load() > 0 ? 1 : 0;
        });
    };
    EXPECT_EQ(lines_with("on"), 1);
    EXPECT_EQ(lines_with("off"), 0);
}

TEST(Providers, NoneUsableNamesWhatWasFound) {
    expect_error(Status::backend, "libfabric offers", [] { make_engine("alpha", {"cxi", 1, false}); });
    expect_error(Status::backend, "nosuchdevice", [] {
        make_engine("alpha", {"shm", 1, false}, {{"devices", "nosuchdevice"}});
    });
}

}  // namespace
}  // namespace railyard::test
