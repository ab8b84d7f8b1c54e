// Which rails an engine gives the memory of a GPU, by the topologies of instance types.
#include "manager/rail_placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "log_lines.h"
#include "unit/topology/topologies.h"

namespace railyard {
namespace {

/// One rail for each EFA of the machine, in bus order.
struct Rails {
    explicit Rails(const std::string& machine) {
        params.topology_file = topology::topology_file(machine);
        const topology::Machine read = topology::read_machine(params.topology_file);
        for (const topology::RailDesc& rail : topology::efa_rails(read)) {
            fabric::Device& device = devices.emplace_back();
            device.name = rail.name;
            const topology::PciAddress& pci = *rail.pci;
            device.nic = {true, static_cast<std::uint16_t>(pci.domain), pci.bus, pci.device, pci.function, 0};
        }
    }
    [[nodiscard]] RailPlacement place() const {
        std::vector<const fabric::Device*> pointers;
        for (const fabric::Device& device : devices)
            pointers.push_back(&device);
        return {params, pointers};
    }
    [[nodiscard]] std::string of_gpu(const std::string& pci) const {
        std::string names;
        for (const std::uint16_t rail : place().for_gpu(pci))
            names += (names.empty() ? "" : ",") + devices.at(rail).name;
        return names;
    }
    Params params;
    std::vector<fabric::Device> devices;
};

TEST(GpuRails, AreThoseBelowItsSwitch) {
    const Rails p5("p5.48xl");
    EXPECT_EQ(p5.of_gpu("0000:53:00.0"), "rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0");
    EXPECT_EQ(p5.of_gpu("0000:ca:00.0"), "rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0");
    EXPECT_EQ(p5.of_gpu("00000000:CA:00.0"), p5.of_gpu("0000:ca:00.0")) << "as CUDA and NVML print it";
}

TEST(GpuRails, AreSharedWhereThereAreFewer) {
    const Rails p4d("p4d.24xl");
    EXPECT_EQ(p4d.of_gpu("0000:10:1c.0"), "rdmap16s27");
    EXPECT_EQ(p4d.of_gpu("0000:10:1d.0"), "rdmap16s27");
    EXPECT_EQ(p4d.of_gpu("0000:a0:1d.0"), "rdmap160s27");
    const Rails g6("g6.48xl");
    EXPECT_EQ(g6.of_gpu("0000:9f:00.0"), "rdmap150s0");
    EXPECT_EQ(g6.of_gpu("0000:b4:00.0"), "rdmap150s0");
}

/// NICs that write to the GPU without passing its CPU: a host bridge in common is not enough.
TEST(GpuRails, BelowItsSwitchAreThoseWithABridgeInCommon) {
    const auto below = [](const Rails& rails, const std::string& pci) {
        return rails.place().below_switch_of_gpu(pci);
    };
    const Rails p5("p5.48xl"), p4d("p4d.24xl"), tray("gb200"), aws("p6e-gb200.36xl");
    EXPECT_EQ(below(p5, "0000:53:00.0"), p5.place().for_gpu("0000:53:00.0"));
    EXPECT_EQ(below(p4d, "0000:10:1c.0"), RailSet{});
    EXPECT_EQ(below(tray, "0008:01:00.0"), RailSet{});
    EXPECT_EQ(below(aws, "0000:29:00.0"), (RailSet{0, 1}));
    EXPECT_EQ(aws.of_gpu("0000:29:00.0"), "rdmap39s0,rdmap40s0");
    EXPECT_EQ(below(aws, "0000:01:00.0"), RailSet{}) << "an unknown GPU, which every rail serves";
    Rails far("p6e-gb200.36xl");
    far.devices.erase(far.devices.begin(), far.devices.begin() + 2);
    far.devices.resize(2);  // EFAs that reach the GPU by way of its CPU
    EXPECT_EQ(far.of_gpu("0000:29:00.0"), "rdmap54s0,rdmap55s0");
    EXPECT_EQ(below(far, "0000:29:00.0"), RailSet{});
}

TEST(GpuRails, ItsNodeIsTheTopologys) {
    const RailPlacement p5 = Rails("p5.48xl").place();
    EXPECT_EQ(p5.node_of_gpu("0000:53:00.0"), 0);
    EXPECT_EQ(p5.node_of_gpu("0000:ca:00.0"), 1);
    EXPECT_EQ(p5.node_of_gpu("0000:01:00.0"), topology::unknown_numa);
}

TEST(GpuRails, AreAllWithALineInTheLogForAnUnknownGpu) {
    const Rails p5("p5.48xl");
    const RailPlacement placement = p5.place();
    const test::LogLines log(log::Level::info);
    EXPECT_EQ(placement.for_gpu("0000:53:00.0").size(), 4u);
    EXPECT_EQ(log.count(), 0);
    EXPECT_EQ(placement.for_gpu("0000:01:00.0"), rail_range(32));
    EXPECT_TRUE(log.contain("0000:01:00.0"));
    EXPECT_THROW(static_cast<void>(placement.for_gpu("GPU-0")), Error);
}

TEST(GpuRails, AreAllWhereNoRailHasAPlace) {
    fabric::Device loopback, shared;
    const std::vector<const fabric::Device*> devices{&loopback, &shared};
    const RailPlacement placement(Params{}, devices);
    EXPECT_EQ(placement.for_gpu("0000:53:00.0"), rail_range(2));
}

}  // namespace
}  // namespace railyard
