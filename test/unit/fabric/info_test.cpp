#include "fabric/info.h"

#include <gtest/gtest.h>

#include "common/status.h"

namespace railyard::fabric {
namespace {

TEST(DeviceFilter, NamesAndExclusions) {
    const DeviceFilter all = parse_device_filter("");
    EXPECT_TRUE(all.allows("anything"));
    const DeviceFilter some = parse_device_filter("eth0,eth1");
    EXPECT_TRUE(some.allows("eth1"));
    EXPECT_FALSE(some.allows("lo"));
    const DeviceFilter not_these = parse_device_filter("^docker0,lo");
    EXPECT_TRUE(not_these.allows("eth0"));
    EXPECT_FALSE(not_these.allows("lo"));
}

TEST(DeviceFilter, BadListsAreRefused) {
    for (const char* bad : {",", "a,", ",a", "^", "a,^b", "^a,^b"}) {
        EXPECT_THROW(static_cast<void>(parse_device_filter(bad)), Error) << bad;
    }
}

TEST(Discovery, TcpOnTheLoopbackIsTheNativeProvider) {
    const std::vector<Device> devices = discover("tcp", parse_device_filter("lo"));
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].name, "lo");
    EXPECT_EQ(devices[0].family, "tcp");
    // "net" in libfabric 1.17, "tcp" later: the layered provider only where there is neither.
    EXPECT_TRUE(devices[0].provider == "net" || devices[0].provider == "tcp") << devices[0].provider;
    EXPECT_EQ(devices[0].info->addr_format, static_cast<std::uint32_t>(FI_SOCKADDR_IN));
    EXPECT_GT(devices[0].caps.transmit_depth, 0u);
}

TEST(Discovery, SeveralPiecesShareAnOperationWhereItsCompletionSaysThatTheyArePlaced) {
    EXPECT_GE(discover("tcp", parse_device_filter("lo")).at(0).caps.rma_pieces, 4u);
    EXPECT_EQ(discover("shm", {}).at(0).caps.rma_pieces, 1u);
}

TEST(Discovery, AnExactProviderNameIsTaken) {
    const std::vector<Device> devices = discover("tcp;ofi_rxm", parse_device_filter("lo"));
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].provider, "tcp;ofi_rxm");
}

TEST(Discovery, GpuMemoryIsAskedOfNoProviderThatCopiesIt) {
    for (const char* provider : {"tcp", "tcp;ofi_rxm", "shm"}) {
        const std::vector<Device> devices = discover(provider, {}, true);
        ASSERT_FALSE(devices.empty()) << provider;
        for (const Device& device : devices)
            EXPECT_FALSE(device.caps.gpu_memory) << provider;
    }
}

TEST(Discovery, NothingUsableSaysWhatThereIs) {
    try {
        static_cast<void>(discover("tcp", parse_device_filter("nosuch0")));
        FAIL() << "found something";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("nosuch0"), std::string::npos) << text;
        EXPECT_NE(text.find(":lo"), std::string::npos) << text;
        EXPECT_NE(text.find("fi_info -l"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace railyard::fabric
