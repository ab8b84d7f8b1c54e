// Two hosts whose libraries, drivers or devices are not the same: what one of them can do alone must not be
// used.
#include "failover.h"
#include "rail/fabric_rail.h"

namespace railyard::test {
namespace {

constexpr std::size_t mixed_length = 4096;

struct Mixed {
    const char* fabric;
    std::vector<std::pair<const char*, simefa::NicPattern>> settings;
};
class MixedHosts : public testing::TestWithParam<Mixed> {
  protected:
    ~MixedHosts() override { cluster().reset(); }
    static void run_all(Engine& from, Engine& to, const char* target) {
        Buffer source(from, mixed_length), there(to, mixed_length);
        const auto remote =
            from.load_remote_memory(target, to.memory_metadata(*there.region), there.address(), mixed_length);
        const LocalDescriptor local = source.local(0, mixed_length);
        const RemoteDescriptor far{there.address(), mixed_length, &remote};
        Transfer* transfer = from.prepare(Operation::write, {&local, 1}, {&far, 1}, target, "there");
        for (std::uint32_t i = 0; i < 100 && !HasFailure(); ++i) {
            fill_pattern(source.bytes, i);
            std::vector<Notification> got;
            Status status = from.post(*transfer);
            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
            while ((status == Status::in_progress || got.empty()) &&
                   std::chrono::steady_clock::now() < limit) {
                if (status == Status::in_progress) status = from.poll(*transfer);
                to.take_notifications(got);
            }
            EXPECT_EQ(status, Status::ok) << i;
            EXPECT_EQ(got.size(), 1u) << i;
            EXPECT_TRUE(source.bytes == there.bytes) << i;
        }
        from.release(transfer);
    }
};

TEST_P(MixedHosts, EveryNotificationComesBothWays) {
    cluster().reset();
    for (const auto& [setting, nic] : GetParam().settings)
        cluster().set(setting, nic);
    const Fabric fabric{GetParam().fabric, 1, false};
    const auto a = make_engine("alpha", fabric, {{"devices", first_of_a.nic}});
    const auto b = make_engine("beta", fabric, {{"devices", first_of_b.nic}});
    a->load_connection_info("beta", b->connection_info());
    b->load_connection_info("alpha", a->connection_info());
    run_all(*a, *b, "beta");
    run_all(*b, *a, "alpha");
}

constexpr const char* takes_receives = "unsolicited_write_recv=off";
const Mixed mixed_hosts[] = {
    {"efa", {{takes_receives, first_of_a}}},
    {"efa", {{takes_receives, first_of_b}}},
    {"efa", {{takes_receives, first_of_a}, {takes_receives, first_of_b}}},
    {"efa", {{"rdma_write=off", first_of_a}, {takes_receives, first_of_b}}},
    {"efa", {{"rdma_write=off", first_of_a}}},
    {"efa-direct", {{takes_receives, first_of_a}}},
    {"efa-direct", {{takes_receives, first_of_b}}},
};
INSTANTIATE_TEST_SUITE_P(Hosts, MixedHosts, testing::ValuesIn(mixed_hosts));

/// What a rail says to who may write to it.
TEST(MixedHostsRail, TellsOfWritesWhereTheDeviceDoesOrTakesNoPart) {
    cluster().reset();
    const auto tells = [](const char* family) {
        auto devices = fabric::discover(family, fabric::parse_device_filter(first_of_a.nic));
        NotificationInbox inbox;
        const FabricRail rail("rail", std::make_shared<const fabric::Device>(std::move(devices.front())),
                              inbox, {false, 5'000'000'000});
        EXPECT_TRUE(rail.carries_immediates());
        return rail.tells_of_writes();
    };
    EXPECT_TRUE(tells("efa-direct"));
    EXPECT_TRUE(tells("efa"));
    const Disturbance receives(takes_receives, first_of_a);
    EXPECT_FALSE(tells("efa-direct"));
    EXPECT_FALSE(tells("efa"));
    cluster().set("rdma_write=off", first_of_a);
    EXPECT_TRUE(tells("efa")) << "all goes by messages";
}

}  // namespace
}  // namespace railyard::test
