// Striping from end to end: which NIC carries what, every byte once, and lanes of different rails.
#include <algorithm>
#include <cstring>
#include <random>

#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

constexpr std::size_t guard = 192;

/// Contents between guard bytes, `offset` bytes into a registered buffer.
struct Framed {
    Framed(Engine& engine, std::size_t at, std::size_t size)
        : offset(at), length(size), buffer(engine, at + size + guard, 0xEE) {}
    [[nodiscard]] bool frame_is_whole() const {
        const auto& bytes = buffer.bytes;
        const auto inside = [&](std::size_t i) { return i >= offset && i < offset + length; };
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (!inside(i) && bytes[i] != 0xEE) return false;
        }
        return true;
    }
    [[nodiscard]] auto begin() const { return buffer.bytes.begin() + static_cast<long>(offset); }
    [[nodiscard]] auto end() const { return begin() + static_cast<long>(length); }
    std::size_t offset, length;
    Buffer buffer;
};

TEST(Striping, OddLengthsAndOffsetsOver32Rails) {
    EnginePair pair(Fabric{"efa-direct", 32, false});
    std::mt19937 random(3);
    for (const std::size_t base :
         {std::size_t{1}, std::size_t{127}, std::size_t{4097}, (std::size_t{256} << 10) - 1,
          (std::size_t{256} << 10) + 1, (std::size_t{1} << 20) + 77, (std::size_t{8} << 20) + 12'345,
          std::size_t{17'000'003}}) {
        for (const Operation operation : {Operation::write, Operation::read}) {
            const std::size_t length = base + random() % 5;
            Framed near(*pair.a, guard + random() % 300, length),
                far(*pair.b, guard + random() % 300, length);
            Framed& source = operation == Operation::write ? near : far;
            for (std::size_t i = 0; i < length; ++i)
                source.buffer.bytes[source.offset + i] = static_cast<std::uint8_t>(i * 131 + i / 251);
            const auto remote = pair.publish(far.buffer);
            const LocalDescriptor here = near.buffer.local(near.offset, length);
            const RemoteDescriptor there{far.buffer.address() + far.offset, length, &remote};
            Transfer* transfer = pair.a->prepare(operation, {&here, 1}, {&there, 1}, "beta", std::nullopt);
            ASSERT_EQ(pair.run(*transfer), Status::ok) << length;
            EXPECT_TRUE(std::equal(near.begin(), near.end(), far.begin())) << length;
            EXPECT_TRUE(near.frame_is_whole() && far.frame_is_whole()) << length;
            pair.a->release(transfer);
        }
    }
}

using BytesByNic = std::map<std::string, std::uint64_t>;

/// What each NIC's counter has grown by since `before`; without those that stood still.
BytesByNic grown(const char* counter, const BytesByNic& before = {}) {
    BytesByNic bytes;
    for (const simefa::NicState& nic : cluster().list())
        bytes[nic.nic] = nic.counters.at(counter);
    for (const auto& [nic, value] : before)
        bytes[nic] -= value;
    std::erase_if(bytes, [](const auto& entry) { return entry.second == 0; });
    return bytes;
}

/// Bytes out of each NIC of a pair's `rounds` posts of one transfer of `size` bytes, connected before.
BytesByNic carried(EnginePair& pair, std::size_t size, int rounds) {
    Buffer source(*pair.a, size), target(*pair.b, size);
    fill_pattern(source.bytes, 5);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(pair.run(*transfer), Status::ok);  // makes the rails known to each other
    const BytesByNic out = grown("bytes_out"), in = grown("bytes_in");
    for (int round = 0; round < rounds; ++round)
        EXPECT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_EQ(grown("bytes_in", in), grown("bytes_out", out)) << "rail i is to talk to rail i";
    EXPECT_TRUE(target.bytes == source.bytes);
    pair.a->release(transfer);
    return grown("bytes_out", out);
}

std::uint64_t sum(const BytesByNic& bytes) {
    std::uint64_t total = 0;
    for (const auto& entry : bytes)
        total += entry.second;
    return total;
}

// NICs that take no time would let the first rail that looks carry everything.

/// A pair that places memory by the topology.
std::unique_ptr<EnginePair> placed_pair() {
    // What extra says wins over the suite's "every rail for any memory".
    return std::make_unique<EnginePair>(Fabric{"efa-direct", 32, false}, Fabric{"efa-direct", 32, false},
                                        ParamMap{{"max_bw_per_dram_seg", "0"}, {"keepalive_ms", "0"}});
}

TEST(Striping, EveryNicOfALaneCarriesSomethingOfALargeTransfer) {
    const Disturbance slow("rate_gbps=5");
    const auto pair = placed_pair();
    const auto bytes = carried(*pair, (std::size_t{32} << 20) + 5, 1);
    EXPECT_EQ(bytes.size(), 4u);
    EXPECT_EQ(sum(bytes), (std::size_t{32} << 20) + 5);
}

TEST(Striping, ASmallTransferIsCarriedByOneNic) {
    const auto pair = placed_pair();
    EXPECT_EQ(carried(*pair, 65'537, 1).size(), 1u);
}

/// Four rails each, and what `settings` says.
EnginePair pair_with(ParamMap settings) {
    const Fabric fabric{"efa-direct", 4, false};
    settings["keepalive_ms"] = "0";
    return {fabric, fabric, settings};
}

TEST(Striping, StripeThresholdDecidesWhatSeveralNicsCarry) {
    constexpr std::size_t size = 1 << 20;
    const Disturbance slow("rate_gbps=1");
    for (const auto& [threshold, several] :
         {std::pair{"0", true}, std::pair{"1M", true}, std::pair{"1048577", false}, std::pair{"4M", false}}) {
        EnginePair pair = pair_with({{"stripe_threshold", threshold}});
        const auto bytes = carried(pair, size, 1);
        EXPECT_EQ(bytes.size() > 1, several) << threshold;
        EXPECT_EQ(sum(bytes), size) << threshold;
    }
}

TEST(Striping, ChunkSizeIsTheLargestPiece) {
    constexpr std::size_t size = 1 << 20;
    for (const auto& [chunk_size, pieces] : {std::pair{"64K", 16u}, std::pair{"512K", 2u}}) {
        EnginePair pair = pair_with({{"chunk_size", chunk_size}});
        const Growth writes("writes");
        carried(pair, size, 3);
        // Four rounds. Cuts are where the target's address is aligned, which may take one more.
        EXPECT_GE(writes.value(), 4 * pieces) << chunk_size;
        EXPECT_LE(writes.value(), 4 * (pieces + 1)) << chunk_size;
    }
    EnginePair pair = pair_with({{"chunk_size", "64K"}, {"stripe_threshold", "4M"}});
    const Growth writes("writes");
    carried(pair, size, 3);
    EXPECT_EQ(writes.value(), 4u) << "it is not striped";
}

TEST(Striping, NothingTravelsTwice) {
    const Fabric fabric{"efa-direct", 32, false};
    EnginePair pair(fabric, fabric, {{"keepalive_ms", "0"}});
    for (const char* weather : {"out_of_order=0", "out_of_order=1", "eagain_probability=0.5"}) {
        const Disturbance set(weather), slow("rate_gbps=1");
        const Growth errors("errors");
        constexpr std::uint64_t size = 80'000'019;
        const auto bytes = carried(pair, size, 2);
        EXPECT_EQ(sum(bytes), 2 * size) << weather;
        EXPECT_GT(bytes.size(), 24u) << weather;  // who comes late finds little left
        EXPECT_EQ(errors.value(), 0u) << weather;
    }
}

/// Leaves the memory registered on these of the rails alone.
void narrow(Registration& region, const RailSet& rails) {
    std::vector<RegisteredMemory> memory;
    for (const std::uint16_t rail : rails)
        memory.push_back(region.memory[rail]);
    region.rails = rails;
    region.memory = std::move(memory);
}

class LaneTest : public testing::Test {
  protected:
    static constexpr std::size_t size = 3 << 20;
    EnginePair pair_{Fabric{"efa-direct", 8, false}};
};

TEST_F(LaneTest, APieceTravelsOnRailsThatKnowBothEnds) {
    Buffer source(*pair_.a, size), target(*pair_.b, size);
    narrow(*source.region, {2, 5});
    narrow(*target.region, {1, 6, 7});
    fill_pattern(source.bytes, 2);
    const auto remote = pair_.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    const Growth errors("errors");
    Transfer* transfer = pair_.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair_.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    EXPECT_EQ(errors.value(), 0u);
    pair_.a->release(transfer);
}

/// Each of three registrations here with each of three there, in one transfer: nine lanes.
TEST_F(LaneTest, OneTransferSpansRegistrationsOnDifferentRails) {
    const RailSet near_rails[] = {{0, 1}, {2, 3, 4}, {7}};
    const RailSet far_rails[] = {{1}, {0, 1, 2, 3, 4, 5, 6, 7}, {5, 6}};
    std::vector<std::unique_ptr<Buffer>> near, far;
    std::vector<std::shared_ptr<RemoteRegion>> remotes;
    for (int i = 0; i < 3; ++i) {
        near.push_back(std::make_unique<Buffer>(*pair_.a, size));
        far.push_back(std::make_unique<Buffer>(*pair_.b, size));
        narrow(*near.back()->region, near_rails[i]);
        narrow(*far.back()->region, far_rails[i]);
        remotes.push_back(pair_.publish(*far.back()));
    }
    for (const Operation operation : {Operation::write, Operation::read}) {
        std::vector<LocalDescriptor> here;
        std::vector<RemoteDescriptor> there;
        for (std::size_t i = 0; i < 9; ++i) {
            // A third of each buffer; odd, and both below and above what is striped.
            const std::size_t length = i % 2 ? 999'999 - i : 777 + i;
            here.push_back(near[i / 3]->local(i % 3 * (size / 3) + i, length));
            there.push_back({far[i % 3]->address() + i / 3 * (size / 3) + 2 * i, length, &remotes[i % 3]});
        }
        for (std::uint32_t i = 0; i < 3; ++i) {
            fill_pattern(near[i]->bytes, 10 + i);
            fill_pattern(far[i]->bytes, 20 + i);
        }
        Transfer* transfer = pair_.a->prepare(operation, here, there, "beta", "all there");
        ASSERT_EQ(pair_.run(*transfer), Status::ok);
        EXPECT_EQ(pair_.notifications(1).size(), 1u);
        for (std::size_t i = 0; i < 9; ++i) {
            EXPECT_EQ(std::memcmp(reinterpret_cast<void*>(here[i].address),
                                  reinterpret_cast<void*>(there[i].address), here[i].length),
                      0)
                << "piece " << i;
        }
        pair_.a->release(transfer);
    }
}

TEST(AsymmetricRails, OneProcess) {
    for (const auto& [left, right] :
         {std::pair{32, 16}, std::pair{16, 32}, std::pair{32, 1}, std::pair{3, 32}}) {
        EnginePair pair(Fabric{"efa-direct", left, false}, Fabric{"efa-direct", right, false});
        constexpr std::size_t size = (9 << 20) + 7;
        Buffer near(*pair.a, size), far(*pair.b, size);
        fill_pattern(near.bytes, 8);
        const auto remote = pair.publish(far);
        const LocalDescriptor here = near.local(0, size);
        const RemoteDescriptor there{far.address(), size, &remote};
        Transfer* write = pair.a->prepare(Operation::write, {&here, 1}, {&there, 1}, "beta", "arrived");
        ASSERT_EQ(pair.run(*write), Status::ok);
        EXPECT_TRUE(far.bytes == near.bytes);
        EXPECT_EQ(pair.notifications(1).size(), 1u);
        fill_pattern(far.bytes, 9);
        Transfer* read = pair.a->prepare(Operation::read, {&here, 1}, {&there, 1}, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*read), Status::ok);
        EXPECT_TRUE(far.bytes == near.bytes);
        pair.a->release(write);
        pair.a->release(read);
    }
}

}  // namespace
}  // namespace railyard::test
