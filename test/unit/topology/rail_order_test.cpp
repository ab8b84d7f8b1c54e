// Which devices get rails where there may not be one on each.
#include "topology/rail_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

/// The NICs of an engine with `limits`, by their buses.
struct Ordered {
    explicit Ordered(const std::string& instance)
        : machine(read_machine(topology_file(instance))), devices(efa_rails(machine)) {}

    [[nodiscard]] std::vector<std::size_t> order(const RailLimits& limits,
                                                 const std::vector<std::size_t>& visible = {}) const {
        std::vector<GpuDesc> gpus;
        for (const std::size_t gpu : visible)
            gpus.push_back(machine.gpus.at(gpu));
        return rail_order(machine, devices, limits, gpus);
    }
    [[nodiscard]] std::string opened(const RailLimits& limits,
                                     const std::vector<std::size_t>& visible = {}) const {
        std::vector<std::size_t> rails = order(limits, visible);
        rails.resize(limits.most(devices.size()));
        return short_names(devices, rails);
    }
    Machine machine;
    std::vector<RailDesc> devices;
};

std::vector<std::size_t> as_given(std::size_t count) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

TEST(RailOrder, EachGpuKeepsARailBelowItsSwitch) {
    EXPECT_EQ(Ordered("p5.48xl").opened({8}), "4f,60,71,82,93,a4,b5,c6");
    EXPECT_EQ(Ordered("p5.48xl").opened({16}), "4f,50,60,61,71,72,82,83,93,94,a4,a5,b5,b6,c6,c7");
    EXPECT_EQ(Ordered("p5en.48xl").opened({8}), "55,57,6e,70,87,89,a0,a2");
}

TEST(RailOrder, FewerThanGpusAreSpreadOverNodesAndHostBridges) {
    EXPECT_EQ(Ordered("p5.48xl").opened({2}), "4f,93");
    EXPECT_EQ(Ordered("p5.48xl").opened({4}), "4f,60,93,a4");
    EXPECT_EQ(Ordered("p5en.48xl").opened({4}), "55,6e,87,a0");
    EXPECT_EQ(Ordered("p6-b200.48xl").opened({4}), "4f,60,71,84");
    EXPECT_EQ(Ordered("p4d.24xl").opened({2}), "10:1b,90:1b");
    EXPECT_EQ(Ordered("gb200").opened({2}), "01,10/01");
}

TEST(RailOrder, WhereAPartOfTheGpusIsVisibleTheirNicsComeFirst) {
    const Ordered p5("p5.48xl");
    EXPECT_EQ(p5.opened({4}, {7}), "c6,c7,c8,c9");
    EXPECT_EQ(p5.opened({4}, {1, 6}), "60,61,b5,b6");
    EXPECT_EQ(p5.opened({8}, {7}), "93,94,a4,b5,c6,c7,c8,c9") << "then those of its node";
    EXPECT_EQ(p5.opened({8}, as_given(8)), p5.opened({8}));
    EXPECT_EQ(Ordered("p5en.48xl").opened({2}, {0, 1}), "55,57") << "one of each GPU";
    EXPECT_EQ(rail_order(p5.machine, p5.devices, {4}, std::vector<GpuDesc>(1)), p5.order({4}))
        << "a GPU that the topology does not know";
}

/// Who does not open is passed over.
TEST(RailOrder, TheNextOnesStandInForThoseThatDoNotOpen) {
    const Ordered p5("p5.48xl");
    std::vector<std::size_t> order = p5.order({8});
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 32u);
    order.erase(order.begin(), order.begin() + 8);
    order.resize(4);
    EXPECT_EQ(short_names(p5.devices, order), "50,94,61,a5");
}

TEST(RailOrder, WithSeveralOnEachDeviceSomeHaveOneMore) {
    const Ordered p5("p5.48xl");
    const RailLimits limits{40, 2};
    EXPECT_EQ(limits.most(32), 40u);
    std::vector<std::size_t> rails = p5.order(limits);
    EXPECT_EQ(rails.size(), 64u);
    EXPECT_EQ(std::set<std::size_t>(rails.begin(), rails.begin() + 32).size(), 32u) << "first one on each";
    EXPECT_EQ(short_names(p5.devices, {rails.begin() + 32, rails.begin() + 40}), "4f,60,71,82,93,a4,b5,c6");
}

TEST(RailOrder, IsTheGivenOneWhereNothingIsLeftOutOrTheUserHasSaid) {
    const Ordered p5("p5.48xl");
    for (const RailLimits limits :
         {RailLimits{}, RailLimits{32}, RailLimits{1000}, RailLimits{.rails = 4, .as_named = true}}) {
        EXPECT_EQ(p5.order(limits, {7}), as_given(32));
        EXPECT_FALSE(limits.leave_a_choice(32));
    }
    const RailLimits each_once{32, 2};
    EXPECT_FALSE(each_once.leave_a_choice(32));
    EXPECT_EQ(rail_order({}, p5.devices, {4}), as_given(32)) << "nothing is known of the machine";
    EXPECT_TRUE(rail_order(p5.machine, {}, {4}).empty());
}

TEST(RailOrder, DevicesWithoutAPlaceComeLast) {
    Ordered p5("p5.48xl");
    p5.devices.insert(p5.devices.begin(), {{"eth0", std::nullopt, 0}, {"new", PciAddress{9, 1, 0, 0}, 100}});
    EXPECT_EQ(p5.opened({2}), "4f,93");
    std::vector<std::size_t> order = p5.order({2});
    order.erase(order.begin(), order.end() - 2);
    EXPECT_EQ(order, as_given(2));
}

TEST(RailOrder, PortsOfOneNicTakeTurnsToo) {
    Ordered b200("p6-b200.48xl");
    std::vector<RailDesc> ports;
    for (const RailDesc& nic : b200.devices)
        ports.insert(ports.end(), 2, nic);
    b200.devices = ports;
    EXPECT_EQ(b200.opened({8}), "4f,50,60,61,71,72,84,85");
}

/// As long as there are as many rails as there are GPUs with NICs of their own.
TEST(RailOrder, NoGpuOfAnyInstanceLosesAllOfItsNics) {
    for (const char* instance : {"p3dn.24xl", "g5.48xl", "p4d.24xl", "p5.48xl", "p5en.48xl", "p6-b200.48xl",
                                 "g6.48xl", "gb200", "c5n.18xl"}) {
        const Ordered machine(instance);
        const RailMap map = select_rails(machine.machine, machine.devices);
        const std::size_t shares = std::set(map.by_gpu.begin(), map.by_gpu.end()).size();
        for (std::uint64_t rails = std::max<std::size_t>(shares, 1); rails <= machine.devices.size();
             ++rails) {
            std::vector<std::size_t> order = machine.order({rails});
            EXPECT_EQ(std::set(order.begin(), order.end()).size(), machine.devices.size()) << instance;
            order.resize(rails);
            EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << instance;
            for (const std::vector<std::size_t>& share : map.by_gpu) {
                EXPECT_NE(std::find_first_of(order.begin(), order.end(), share.begin(), share.end()),
                          order.end())
                    << instance << " with " << rails;
            }
        }
    }
}

}  // namespace
}  // namespace railyard::topology
