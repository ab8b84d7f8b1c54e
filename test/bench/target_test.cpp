// The target, as its initiator sees it.
#include "target.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>

#include "control.h"
#include "watchdog.h"

namespace railyard::bench {
namespace {

using namespace std::chrono_literals;

std::chrono::milliseconds silence_in(const Options& options) {
    return std::chrono::milliseconds(open_request(options, 4096).value("silence_ms", std::int64_t{0}));
}

TEST(Target, IsToldHowLongItsInitiatorMayBeSilent) {
    Options options;
    EXPECT_GE(silence_in(options), 1h);
    options.idle_seconds = 3600;
    EXPECT_GT(silence_in(options), 1h + 1min) << "what is idle for an hour says nothing for longer";
    options.idle_seconds = 0;
    options.iterations = 1;
    EXPECT_GE(silence_in(options), 24h * 7) << "nobody knows how long that takes";
}

TEST(Target, WaitsForItsInitiatorAsLongAsItWasTold) {
    const Options options;
    Message open = open_request(options, 4096);
    ASSERT_TRUE(open.contains("silence_ms"));
    open["silence_ms"] = 200;
    open["plugin"] = open["raw"] = false;
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Control initiator{host::Channel(ends[0])};
    initiator.send(open);
    EXPECT_EQ(run_target(options, Control(host::Channel(ends[1]))), 1);
    disarm_watchdog();
    EXPECT_TRUE(initiator.receive(1s).contains("base"));
}

}  // namespace
}  // namespace railyard::bench
