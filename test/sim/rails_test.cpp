// Which rails carry memory on a p5.48xlarge, as its NICs count it.
#include <sys/mman.h>

#include <cstdlib>
#include <set>

#include "engine/metadata.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

std::unique_ptr<Engine> engine_with(ParamMap params) {
    params.emplace("provider", "efa-direct");
    EngineConfig config;
    config.agent_name = "alpha";
    config.params = parse_params(params);
    config.progress_thread = false;
    return std::make_unique<Engine>(std::move(config));
}

/// How many NICs get to know a buffer of a fresh engine.
std::size_t rails_for_host_memory(const ParamMap& params) {
    const auto engine = engine_with(params);
    const Growth regions("regions");
    const Buffer buffer(*engine, 1 << 20);
    const std::size_t count = regions.value();
    EXPECT_EQ(decode_memory(engine->memory_metadata(*buffer.region)).rails.size(), count);
    engine->deregister_memory(buffer.region);
    EXPECT_EQ(regions.value(), 0u) << "deregistered memory is still known to a NIC";
    return count;
}

template <class Call>
std::string error_of(Call call, Status status) {
    try {
        call();
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), status) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
}

/// The value of an environment variable, for as long as it lives.
class Environment {
  public:
    Environment(const char* name, const std::string& value) : name_(name), before_(std::getenv(name)) {
        setenv(name, value.c_str(), 1);
    }
    ~Environment() { setenv(name_, before_.c_str(), 1); }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

  private:
    const char* name_;
    std::string before_;
};

std::string topology(const char* instance) {
    const std::string p5 = std::getenv("HWLOC_XMLFILE");
    return p5.substr(0, p5.rfind('/') + 1) + instance + ".xml";
}

TEST(RailsInUse, HostMemoryHasThoseThatItsNodeFeeds) {
    EXPECT_EQ(rails_for_host_memory({}), 4u);
}

RailSet rails_of(Engine& engine, const std::shared_ptr<Registration>& region) {
    return decode_memory(engine.memory_metadata(*region)).rails;
}

/// On a p5 sixteen, of which each range has four.
TEST(RailsInUse, HostMemoryTakesAllNicsOfItsNodeInTurn) {
    const auto engine = engine_with({});
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::set<std::uint16_t> used;
    for (int i = 0; i < 4; ++i) {
        buffers.push_back(std::make_unique<Buffer>(*engine, 1 << 20));
        const RailSet rails = rails_of(*engine, buffers.back()->region);
        EXPECT_EQ(rails.size(), 4u);
        used.insert(rails.begin(), rails.end());
    }
    EXPECT_EQ(used.size(), 16u);
    for (const auto& buffer : buffers)
        engine->deregister_memory(buffer->region);
}

/// While it is registered, and when it is registered again.
TEST(RailsInUse, ARangeThatIsKnownKeepsItsRails) {
    for (const char* keep : {"auto", "off"}) {
        const auto engine = engine_with({{"keep_keys", keep}});
        const Buffer one(*engine, 1 << 20), other(*engine, 1 << 20);
        const RailSet first = rails_of(*engine, one.region);
        EXPECT_NE(rails_of(*engine, other.region), first);
        const auto beside = engine->register_memory(one.address(), 1 << 20, 0);
        const bool known = std::string(keep) == "auto";
        EXPECT_EQ(rails_of(*engine, beside) == first, known);
        engine->deregister_memory(beside);
        engine->deregister_memory(one.region);
        const auto again = engine->register_memory(one.address(), 1 << 20, 0);
        EXPECT_EQ(rails_of(*engine, again) == first, known);
        engine->deregister_memory(again);
        engine->deregister_memory(other.region);
    }
}

TEST(RailsInUse, TheLimitForHostMemoryIsInGbits) {
    EXPECT_EQ(rails_for_host_memory({{"max_bw_per_dram_seg", "100"}}), 1u);
    EXPECT_EQ(rails_for_host_memory({{"max_bw_per_dram_seg", "200"}}), 2u);
    EXPECT_EQ(rails_for_host_memory({{"max_bw_per_dram_seg", "800"}}), 8u);
    EXPECT_EQ(rails_for_host_memory({{"max_bw_per_dram_seg", "1000000"}}), 32u);
}

TEST(RailsInUse, RailsLimitsTheirNumber) {
    const Growth endpoints("endpoints");
    EXPECT_EQ(engine_with({{"rails", "5"}})->rail_count(), 5u);
    EXPECT_EQ(engine_with({{"rails", "40"}})->rail_count(), 32u);
    EXPECT_EQ(rails_for_host_memory({{"rails", "2"}}), 2u);
    EXPECT_EQ(endpoints.value(), 0u);
}

TEST(RailsInUse, DevicesNamesThemOrLeavesThemOut) {
    const simefa::NicPattern first{"*", "rdmap79s0"}, far{"*", "rdmap201s0"};
    const Growth on_first("endpoints", first), on_far("endpoints", far), everywhere("endpoints");
    {
        const auto engine = engine_with({{"devices", "rdmap201s0"}});
        EXPECT_EQ(engine->rail_count(), 1u);
        EXPECT_EQ(on_far.value(), 2u) << "one to be reached at, one to send from";
        EXPECT_EQ(everywhere.value(), 2u);
        const Growth regions("regions", far);
        const Buffer buffer(*engine, 4096);  // of the other node: better far than not at all
        EXPECT_EQ(regions.value(), 1u);
    }
    const auto engine = engine_with({{"devices", "^rdmap79s0,rdmap201s0"}});
    EXPECT_EQ(engine->rail_count(), 30u);
    EXPECT_EQ(on_first.value() + on_far.value(), 0u);
    EXPECT_EQ(everywhere.value(), 60u);
    const std::string text = error_of([] { engine_with({{"devices", "rdmap1s0"}}); }, Status::backend);
    EXPECT_NE(text.find("efa-direct has rdmap79s0, "), std::string::npos) << text;
}

TEST(RailsInUse, ATopologyFileReplacesTheMachine) {
    const std::string p5 = topology("p5.48xl");
    ASSERT_EQ(engine_with({})->rail_count(), 32u);  // the provider has read its picture by now
    const Environment elsewhere("HWLOC_XMLFILE", topology("p4d.24xl"));
    EXPECT_EQ(rails_for_host_memory({}), 32u) << "NICs that the topology does not know carry everything";
    EXPECT_EQ(rails_for_host_memory({{"topology_file", p5}}), 4u);
}

TEST(RailsInUse, ATopologyFileThatIsNotThereIsNamed) {
    const std::string text = error_of(
        [] {
            engine_with({{"topology_file", "/no/such/machine.xml"}});
        },
        Status::invalid_param);
    EXPECT_NE(text.find("/no/such/machine.xml"), std::string::npos) << text;
}

/// The last NIC has no room for another registration.
TEST(RailsInUse, RegistrationIsOnAllOfItsRailsOrOnNone) {
    const BareRails four({"efa-direct", 4, false});
    std::vector<std::uint8_t> bytes(std::size_t{17} << 20);  // enough for several threads
    const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
    std::vector<RegisteredMemory> fillers;
    try {
        for (;;)
            fillers.push_back(four.rails->rail(3).register_memory({address, 64}));
    } catch (const Error&) {
    }
    EXPECT_GT(fillers.size(), 200'000u);
    for (std::size_t length : {std::size_t{4096}, bytes.size()}) {
        const Growth regions("regions");
        const std::string text =
            error_of([&] { four.rails->register_memory(address, length, 0); }, Status::backend);
        EXPECT_NE(text.find("rail3:rdmap164s0"), std::string::npos) << text;
        EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
        EXPECT_EQ(regions.value(), 0u) << "a rail keeps what the others could not have";
        fillers.pop_back();
        const auto region = four.rails->register_memory(address, length, 0);
        EXPECT_EQ(region->rails.size(), 4u);
        EXPECT_EQ(regions.value(), 3u);  // and one in the filler's place
        four.rails->deregister_memory(*region);
        fillers.push_back(four.rails->rail(3).register_memory({address, 64}));
    }
}

/// Of which nothing is ever touched.
TEST(HostMemory, OfMorePagesThanOneRegistrationTakesIsRegisteredInPieces) {
    const auto engine = engine_with({{"rails", "1"}});
    constexpr std::size_t limit = std::size_t{4} << 30;
    void* const memory =
        mmap(nullptr, 2 * limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    for (const int access : {PROT_READ, PROT_READ | PROT_WRITE}) {
        ASSERT_EQ(mprotect(memory, 2 * limit, access), 0);
        const std::string text =
            error_of([&] { (void)engine->register_memory(address, limit + 4096, 0); }, Status::backend);
        EXPECT_NE(text.find("rdmap"), std::string::npos) << text;
        EXPECT_NE(text.find("1048577 pages of 4 KiB"), std::string::npos) << text << " of access " << access;
    }
    const auto first = engine->register_memory(address, limit, 0);
    const auto second = engine->register_memory(address + limit, limit, 0);
    engine->deregister_memory(first);
    engine->deregister_memory(second);
    {
        const Disturbance few("region_pages=4");
        error_of([&] { (void)engine->register_memory(address, 5 * 4096, 0); }, Status::backend);
        engine->deregister_memory(engine->register_memory(address, 4 * 4096, 0));
    }
    munmap(memory, 2 * limit);
}

/// On a p4d, and on a p5 that is without.
TEST(HostMemory, OnADeviceWithoutRdmaWriteHasAnyNumberOfPages) {
    const Disturbance without("rdma_write=off");
    const auto engine = engine_with({{"provider", "efa"}, {"rails", "1"}});
    constexpr std::size_t length = (std::size_t{4} << 30) + 4096;
    for (const int access : {PROT_READ, PROT_READ | PROT_WRITE}) {
        void* const memory =
            mmap(nullptr, length, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        EXPECT_NO_THROW(engine->deregister_memory(
            engine->register_memory(reinterpret_cast<std::uint64_t>(memory), length, 0)));
        munmap(memory, length);
    }
}

}  // namespace
}  // namespace railyard::test
