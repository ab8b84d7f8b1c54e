// Notifications: whole, once, after their data, with the right sender; on every fabric.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "engine/metadata.h"
#include "engine/notification.h"
#include "engine_pair.h"
#include "manager/rail_manager.h"
#include "sanitized.h"

namespace railyard::test {
namespace {

constexpr std::uint32_t many = sanitized ? 5000 : 70'000;  // more than 16 bits count

class NotificationTest : public testing::TestWithParam<Fabric> {};

std::string pattern_text(std::size_t size, std::uint32_t seed) {
    std::vector<std::uint8_t> bytes(size);
    fill_pattern(bytes, seed);
    return {bytes.begin(), bytes.end()};
}

TEST_P(NotificationTest, AnySizeArrivesWhole) {
    EnginePair pair(GetParam());
    const std::vector<std::size_t> sizes = {0, 1, 100, 8100, 8192, 8193, 100'000, std::size_t{16} << 20};
    for (std::size_t size : sizes)
        pair.a->send_notification("beta", pattern_text(size, static_cast<std::uint32_t>(size)));
    std::vector<Notification> got = pair.notifications(sizes.size());
    ASSERT_EQ(got.size(), sizes.size());
    std::multiset<std::string> expected, seen;
    for (std::size_t size : sizes)
        expected.insert(pattern_text(size, static_cast<std::uint32_t>(size)));
    for (Notification& notification : got) {
        EXPECT_EQ(notification.agent, "alpha");
        seen.insert(std::move(notification.message));
    }
    EXPECT_TRUE(seen == expected);
}

/// More than the target has receive buffers for, while it does not look.
TEST_P(NotificationTest, ATargetThatSleepsGetsThemAllLater) {
    EnginePair pair(GetParam());
    constexpr std::size_t count = 150;
    std::multiset<std::string> expected, seen;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::string text = pattern_text(i % 3 ? 100 : 20'000, i);
        pair.a->send_notification("beta", text);
        expected.insert(text);
        for (int turn = 0; turn < 50; ++turn)
            pair.a->progress();
    }
    for (Notification& notification : pair.notifications(count))
        seen.insert(std::move(notification.message));
    EXPECT_TRUE(seen == expected);
}

/// A peer that only notes what comes: the ids of whole messages, and how many PINGs.
struct Listener final : ControlSink {
    Listener(const Fabric& fabric, std::uint64_t instance)
        : rails(std::make_shared<RailManager>(
              Params::parse(fabric_params(fabric), [](const char*) -> const char* { return nullptr; }), false,
              *this)),
          info{"listener" + std::to_string(instance), instance, rails->provider(), rails->addresses()} {}
    bool on_control(std::span<const std::byte> fragment) noexcept override {
        constexpr std::size_t kind_at = 3, id_at = 21;  // docs/wire_format.md
        if (fragment[kind_at] == std::byte{static_cast<std::uint8_t>(MessageKind::ping)}) {
            ++pings;
            return true;
        }
        std::uint64_t id = 0;
        std::memcpy(&id, fragment.data() + id_at, sizeof(id));
        ids.insert(id);
        return true;
    }
    std::set<std::uint64_t> ids;
    int pings = 0;
    const std::shared_ptr<RailManager> rails;
    const ConnectionInfo info;
};

/// Else each of a receiver's memories of them would be full of gaps, which take room.
TEST_P(NotificationTest, MessagesToOnePeerAreCountedWithoutGaps) {
    if (GetParam().provider == "efa-direct") return;  // its peers answer, and listeners do not
    const auto engine = make_engine("alpha", GetParam(), {{"keepalive_ms", "50"}});
    Listener one(GetParam(), 1), two(GetParam(), 2);
    std::size_t sent = 0;
    for (int meeting = 0; meeting < 2; ++meeting) {
        const int pings = std::min(one.pings, two.pings);
        std::vector<Transfer*> transfers;
        for (const Listener* listener : {&one, &two}) {
            engine->load_connection_info(listener->info.agent, encode(listener->info));
            transfers.push_back(engine->prepare(Operation::write, {}, {}, listener->info.agent, "after it"));
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        const auto drive = [&](const std::function<bool()>& over) {
            while (!over() && std::chrono::steady_clock::now() < end) {
                engine->progress();
                for (const Listener* listener : {&one, &two}) {
                    for (std::size_t i = 0; i < listener->rails->size(); ++i)
                        listener->rails->rail(i).progress();
                }
            }
        };
        for (int round = 0; round < 2; ++round) {
            for (Transfer* transfer : transfers)
                ASSERT_NE(engine->post(*transfer), Status::repost_active);
            for (const Listener* listener : {&one, &two})
                engine->send_notification(listener->info.agent, "hello");
            sent += 2;
            drive([&] { return std::min(one.ids.size(), two.ids.size()) >= sent; });
            for (Transfer* transfer : transfers)
                drive([&] { return engine->poll(*transfer) != Status::in_progress; });
            if (round == 0) drive([&] { return std::min(one.pings, two.pings) > pings; });
        }
        EXPECT_GT(std::min(one.pings, two.pings), pings) << "it was to be asked in between";
        for (Transfer* transfer : transfers)
            engine->release(transfer);
        for (const Listener* listener : {&one, &two}) {
            ASSERT_EQ(listener->ids.size(), sent);
            EXPECT_EQ(*listener->ids.rbegin() - *listener->ids.begin(), sent - 1) << "meeting " << meeting;
            engine->disconnect(listener->info.agent);
        }
    }
}

/// The target has not forgotten whom it heard, and what is said now is new all the same.
TEST_P(NotificationTest, WhatIsSaidAfterADisconnectArrives) {
    EnginePair pair(GetParam());
    for (int meeting = 0; meeting < 5; ++meeting) {
        std::multiset<std::string> expected, seen;
        for (int i = 0; i < 3; ++i) {
            const std::string text = std::to_string(meeting) + "/" + std::to_string(i);
            pair.a->send_notification("beta", text);
            expected.insert(text);
        }
        Transfer* transfer = pair.a->prepare(Operation::write, {}, {}, "beta", "after nothing");
        expected.insert("after nothing");
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        pair.a->release(transfer);
        for (Notification& notification : pair.notifications(expected.size()))
            seen.insert(std::move(notification.message));
        ASSERT_TRUE(seen == expected) << "meeting " << meeting;
        pair.a->disconnect("beta");
        pair.a->load_connection_info("beta", pair.b->connection_info());
    }
}

TEST_P(NotificationTest, TooLongIsRefused) {
    EnginePair pair(GetParam());
    try {
        pair.a->send_notification("beta", std::string((std::size_t{16} << 20) + 1, 'x'));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        EXPECT_NE(std::string(error.what()).find("16777216"), std::string::npos) << error.what();
    }
    EXPECT_THROW(pair.a->send_notification("nobody", "x"), Error);
}

TEST_P(NotificationTest, FollowsTheDataOfItsTransfer) {
    EnginePair pair(GetParam());
    constexpr std::size_t size = 2 << 20;
    Buffer source(*pair.a, size);
    Buffer target(*pair.b, size);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "first");
    for (std::uint32_t round = 0; round < 20; ++round) {
        fill_pattern(source.bytes, round);
        const std::string message = "round " + std::to_string(round);
        const Status posted = pair.a->post(*transfer, round ? &message : nullptr);
        ASSERT_TRUE(posted == Status::in_progress || posted == Status::ok);
        const std::vector<Notification> got = pair.notifications(1);
        ASSERT_TRUE(target.bytes == source.bytes) << "notified before the data of round " << round;
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].message, round ? message : "first");
        ASSERT_EQ(pair.wait(*transfer), Status::ok);
    }
    pair.a->release(transfer);
}

TEST_P(NotificationTest, ATransferWithoutDataStillNotifies) {
    EnginePair pair(GetParam());
    Transfer* transfer = pair.a->prepare(Operation::write, {}, {}, "beta", "only words");
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    const auto got = pair.notifications(1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, "only words");
    pair.a->release(transfer);
}

TEST_P(NotificationTest, ManySendersAtOnceLoseAndDoubleNothing) {
    const Fabric fabric = GetParam();
    const auto target = make_engine("target", fabric);
    constexpr int senders = 4;
    constexpr int threads = 2;
    constexpr int messages = 40;
    std::vector<std::unique_ptr<Engine>> engines;
    for (int i = 0; i < senders; ++i) {
        engines.push_back(make_engine("sender" + std::to_string(i), fabric));
        engines.back()->load_connection_info("target", target->connection_info());
    }
    // 20 kB each: three fragments, mixed with everybody else's.
    auto text = [](int sender, int thread, int index) {
        const std::string head =
            std::to_string(sender) + "/" + std::to_string(thread) + "/" + std::to_string(index) + ":";
        return head + std::string(20'000, static_cast<char>('a' + (sender + thread + index) % 26));
    };
    std::vector<std::thread> workers;
    std::atomic<bool> stop{false};
    for (int s = 0; s < senders; ++s) {
        for (int t = 0; t < threads; ++t) {
            workers.emplace_back([&, s, t] {
                for (int i = 0; i < messages; ++i) {
                    engines[static_cast<std::size_t>(s)]->send_notification("target", text(s, t, i));
                }
                while (!stop.load()) {
                    if (!engines[static_cast<std::size_t>(s)]->progress()) std::this_thread::yield();
                }
            });
        }
    }
    std::vector<Notification> got;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (got.size() < senders * threads * messages && std::chrono::steady_clock::now() < end) {
        target->take_notifications(got);
        std::this_thread::yield();
    }
    stop.store(true);
    for (std::thread& worker : workers)
        worker.join();
    ASSERT_EQ(got.size(), static_cast<std::size_t>(senders * threads * messages));
    std::set<std::string> seen;
    for (const Notification& notification : got) {
        const int s = notification.message[0] - '0';
        EXPECT_EQ(notification.agent, "sender" + std::to_string(s));
        seen.insert(notification.message);
    }
    for (int s = 0; s < senders; ++s) {
        for (int t = 0; t < threads; ++t) {
            for (int i = 0; i < messages; ++i)
                EXPECT_EQ(seen.count(text(s, t, i)), 1u);
        }
    }
}

/// Small WRITEs over one rail, each with a notification.
class Flood {
  public:
    Flood() {
        for (std::size_t i = 0; i < 64; ++i) {
            const LocalDescriptor from = source_.local(8 * i, 8);
            const RemoteDescriptor to{target_.address() + 8 * i, 8, &remote_};
            handles_.push_back(
                {pair_.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt)});
        }
    }
    ~Flood() {
        for (const Handle& handle : handles_)
            pair_.a->release(handle.transfer);
    }
    Flood(const Flood&) = delete;
    Flood& operator=(const Flood&) = delete;

    /// Until all have been sent and as many have arrived.
    bool run() {
        return pair_.until(
            [&] {
                for (Handle& handle : handles_)
                    post_again(handle);
                receive();
                return arrived_ >= many && std::none_of(handles_.begin(), handles_.end(),
                                                        [](const Handle& handle) { return handle.busy; });
            },
            std::chrono::seconds(60));
    }
    void drive(std::chrono::milliseconds time) {
        pair_.until([] { return false; }, time);
        receive();
    }
    [[nodiscard]] std::uint32_t arrived() const { return arrived_; }
    [[nodiscard]] long lost() const { return std::count(seen_.begin(), seen_.end(), false); }

  private:
    struct Handle {
        Transfer* transfer = nullptr;
        bool busy = false;
    };

    void post_again(Handle& handle) {
        Status status = handle.busy ? pair_.a->poll(*handle.transfer) : Status::ok;
        EXPECT_TRUE(status == Status::ok || status == Status::in_progress) << to_string(status);
        handle.busy = status == Status::in_progress;
        if (handle.busy || posted_ == many) return;
        const std::string message = std::to_string(posted_++);
        status = pair_.a->post(*handle.transfer, &message);
        EXPECT_TRUE(status == Status::ok || status == Status::in_progress) << to_string(status);
        handle.busy = status == Status::in_progress;
    }
    void receive() {
        std::vector<Notification> got;
        pair_.b->take_notifications(got);
        for (const Notification& notification : got)
            seen_.at(std::stoul(notification.message)) = true;
        arrived_ += static_cast<std::uint32_t>(got.size());
    }

    EnginePair pair_{Fabric{"tcp", 1, false}};
    Buffer source_{*pair_.a, 512}, target_{*pair_.b, 512};
    std::shared_ptr<RemoteRegion> remote_ = pair_.publish(target_);
    std::vector<Handle> handles_;
    std::vector<bool> seen_ = std::vector<bool>(many);
    std::uint32_t posted_ = 0, arrived_ = 0;
};

TEST(ManyNotifications, OfOneRailAreKeptApart) {
    Flood flood;
    EXPECT_TRUE(flood.run()) << "only " << flood.arrived() << " arrived";
    flood.drive(std::chrono::milliseconds(50));
    EXPECT_EQ(flood.arrived(), many);
    EXPECT_EQ(flood.lost(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, NotificationTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, true},
                                                    Fabric{"shm", 1, false}, Fabric{"shm", 4, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
