// A peer that a forked child destroys: what it has of the rails is its parent's.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/fork_watch.h"
#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "engine/peer.h"
#include "fault/process/child.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace peer_fork_test {

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

/// Of one byte. Calls `meanwhile` with the rail's role held.
struct Interrupted : OutMessage {
    explicit Interrupted(std::function<void()> call) : meanwhile(std::move(call)) {
        fill = [](OutMessage& message, std::span<std::byte> buffer) noexcept {
            if (const auto once = std::exchange(static_cast<Interrupted&>(message).meanwhile, nullptr))
                once();
            buffer[0] = std::byte{1};
            return std::size_t{1};
        };
        advance = [](OutMessage&) noexcept { return false; };
        done = [](OutMessage& message, Status) noexcept { static_cast<Interrupted&>(message).over = true; };
    }
    std::function<void()> meanwhile;
    bool over = false;
};

/// A thread that the child has not got may have been at work on the rail.
TEST(PeerOfAParent, GivesNothingBackInAChild) {
    watch_forks();
    NullSink sink;
    const auto rails = std::make_shared<RailManager>(
        Params::parse({{"provider", "tcp"}, {"devices", "lo"}, {"rails_per_device", "1"}}), false, sink);
    auto peer = std::make_shared<Peer>(ConnectionInfo{"beta", 99, rails->provider(), rails->addresses()},
                                       rails, std::make_shared<MessageIds>());
    peer->resolve(control_pair);
    std::optional<test::Child> child;
    Interrupted message([&] {
        child.emplace(test::Child::End::at_once, [&] {
            peer.reset();
            return 0;
        });
    });
    message.destination = peer->control_route().address;
    rails->rail(0).send(message);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!message.over && std::chrono::steady_clock::now() < limit)
        rails->rail(0).progress();
    ASSERT_TRUE(message.over && child);
    EXPECT_EQ(child->outcome([] { usleep(1000); }, std::chrono::seconds(5)), "exit 0");
}

}  // namespace peer_fork_test
}  // namespace railyard
