// Which rails an engine gives the memory of a GPU, and ranges of host memory one after the other, by the
// topologies of instance types.
#include "manager/rail_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "log_lines.h"
#include "manager/lane_plan.h"
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
    [[nodiscard]] RailPlacement place(std::optional<std::uint32_t> offset = {}) const {
        std::vector<const fabric::Device*> pointers;
        for (const fabric::Device& device : devices)
            pointers.push_back(&device);
        return RailPlacement(params, pointers, 0, {}, offset);
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

/// Ranges of host memory of a machine with these topology and rails, wherever they lie here.
class HostRails : public testing::Test {
  protected:
    /// Of the next range.
    [[nodiscard]] RailSet next(const RailPlacement& placement) {
        std::optional<std::uint32_t> turn;
        return again(placement, turn);
    }
    [[nodiscard]] RailSet again(const RailPlacement& placement, std::optional<std::uint32_t>& turn) {
        return placement.for_host_memory(reinterpret_cast<std::uint64_t>(memory_.data()), memory_.size(),
                                         turn);
    }
    const Rails p5_ = Rails("p5.48xl");

  private:
    const std::vector<char> memory_ = std::vector<char>(4096, 'x');
};

/// On a machine whose kernel does not tell where memory lies, of both nodes.
TEST_F(HostRails, FourRangesUseAllNicsOfTheirNode) {
    const RailPlacement placement = p5_.place();
    const RailSet first = next(placement);
    std::set<std::uint16_t> used(first.begin(), first.end());
    for (int range = 1; range < 4; ++range) {
        const RailSet rails = next(placement);
        EXPECT_EQ(rails.size(), first.size());
        used.insert(rails.begin(), rails.end());
    }
    EXPECT_EQ(used.size(), 4 * first.size());
    EXPECT_TRUE(used.size() == 16 || used.size() == 32) << used.size();
    EXPECT_EQ(next(placement), first);
}

TEST_F(HostRails, NeighbouringProcessesBeginWithOthers) {
    const RailPlacement one = p5_.place(41), other = p5_.place(42);
    EXPECT_NE(next(one), next(other));
    const RailPlacement again = p5_.place(42);
    EXPECT_EQ(next(one), next(again)) << "in the same order everywhere";
    const RailPlacement mine = p5_.place(), as_well = p5_.place();
    EXPECT_EQ(next(mine), next(as_well)) << "one process has one offset";
}

TEST_F(HostRails, ARangeThatHadItsTurnKeepsIt) {
    const RailPlacement placement = p5_.place(UINT32_MAX);
    std::optional<std::uint32_t> turn;
    const RailSet first = again(placement, turn);
    ASSERT_TRUE(turn);
    EXPECT_NE(next(placement), first);
    EXPECT_EQ(again(placement, turn), first);
    EXPECT_NE(next(placement), first);
}

/// Region i of one host with region i of another, of processes that began with whatever they did: the lanes
/// are no more than there are windows.
TEST_F(HostRails, ATransferOverManyRegionsOfEqualHostsHasFewLanes) {
    constexpr std::uint32_t regions = 8;
    for (std::uint32_t there = 0; there < 4; ++there) {
        const RailPlacement ours = p5_.place(1), theirs = p5_.place(there);
        std::vector<RailSet> locals, remotes;
        std::vector<Piece> pieces;
        for (std::uint32_t i = 0; i < regions; ++i) {
            locals.push_back(next(ours));
            remotes.push_back(next(theirs));
            pieces.push_back({0, 0, 1 << 20, i, i});
        }
        std::vector<const RailSet*> of_ours, of_theirs;
        for (std::uint32_t i = 0; i < regions; ++i) {
            of_ours.push_back(&locals[i]);
            of_theirs.push_back(&remotes[i]);
        }
        const auto lanes = plan_lanes(pieces, of_ours, of_theirs, {32, 1 << 18, 0, UINT32_MAX});
        EXPECT_EQ(lanes.size(), 4u) << "from " << there << " on";
        std::set<std::uint16_t> used;
        for (const LanePlan& lane : lanes) {
            for (const RailPair pair : lane.rails)
                used.insert(pair.local);
        }
        EXPECT_EQ(used.size(), 4 * locals.front().size());
    }
}

TEST_F(HostRails, AreTheSameForAllWhereANodeHasNoMore) {
    const Rails p4d("p4d.24xl");
    const RailPlacement placement = p4d.place(3);
    EXPECT_EQ(next(placement), rail_range(4));
    EXPECT_EQ(next(placement), rail_range(4));
}

}  // namespace
}  // namespace railyard
