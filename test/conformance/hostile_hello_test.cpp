// What strangers say of themselves: an engine that refuses it goes on.
#include "common/log.h"
#include "sim/stranger.h"

namespace railyard::test {
namespace {

const Fabric one_rail{"tcp", 1, false};

/// What was taken in of an introduction is given back when its instance goes, and no more than that.
TEST(HostileHello, ASenderThatNoRailTakesIsNotThereWhenItsInstanceGoes) {
    log::set_level(log::Level::off);
    const auto victim = make_engine("victim", one_rail);
    {
        Stranger stranger(*victim, one_rail);
        for (const char* sender : {"x", "0123456789abcdef0"}) {
            const std::vector<IntroducedPair> pairs{{{0, 0}, 1, ""}, {{0, 0}, 1, sender}};
            stranger.say(MessageKind::hello, "mallory", stranger.nonce,
                         encode(Introduction{stranger.info(), pairs}));
        }
        for (int i = 0; i < 1000; ++i)
            victim->progress();
        victim->load_connection_info("mallory", encode(stranger.info()));
        victim->disconnect("mallory");
    }
    log::set_level(log::Level::warn);
    const auto friendly = make_engine("friendly", one_rail);
    friendly->load_connection_info("victim", victim->connection_info());
    friendly->send_notification("victim", "still there?");
    std::vector<Notification> got;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (got.empty() && std::chrono::steady_clock::now() < end) {
        friendly->progress();
        victim->take_notifications(got);
    }
    EXPECT_EQ(got.size(), 1u);
}

}  // namespace
}  // namespace railyard::test
