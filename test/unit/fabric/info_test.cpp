#include "fabric/info.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "common/status.h"
#include "log_lines.h"

namespace railyard::fabric {
namespace {

TEST(DeviceFilter, NamesAndExclusions) {
    const DeviceFilter all = parse_device_filter("");
    EXPECT_TRUE(all.allows("anything"));
    const DeviceFilter some = parse_device_filter("eth0,eth1");
    EXPECT_TRUE(some.allows("eth1"));
    EXPECT_FALSE(some.allows("lo"));
    EXPECT_EQ(parse_device_filter(" eth0 , eth1 ").names, some.names);
    EXPECT_TRUE(parse_device_filter(" ^ lo").exclude);
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

std::string refusal(std::string_view provider, std::string_view devices) {
    try {
        static_cast<void>(discover(provider, parse_device_filter(devices)));
    } catch (const Error& error) {
        return error.what();
    }
    return "found something";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Of the environment, for as long as it lives.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* before = getenv(name)) before_ = before;
        setenv(name, value, 1);
    }
    ~Variable() {
        if (before_) {
            setenv(name_, before_->c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* const name_;
    std::optional<std::string> before_;
};

TEST(Discovery, AnUnknownProviderIsNamedWithTheWordsThatMayStandThere) {
    for (const char* wrong : {"tpc", "TCP"}) {
        const std::string text = refusal(wrong, "lo");
        EXPECT_TRUE(has(text, std::string("unknown provider \"") + wrong + "\" (did you mean tcp?)")) << text;
        EXPECT_TRUE(has(text, "known: auto, efa-direct, efa, cxi, verbs, tcp, shm, verbs-msg, tcp-msg"))
            << text;
        EXPECT_TRUE(has(text, "tcp;ofi_rxm")) << text;
        EXPECT_TRUE(has(text, "fi_info -l")) << text;
    }
}

TEST(Discovery, AProviderWithoutDevicesIsNotCalledUnknown) {
    const std::string text = refusal("cxi", "");
    EXPECT_TRUE(has(text, "no device of provider \"cxi\"")) << text;
    EXPECT_TRUE(has(text, ":lo")) << text;
    EXPECT_FALSE(has(text, "unknown")) << text;
}

TEST(Discovery, DevicesThatFitNothingAreNamedWithThoseThatThereAre) {
    const std::string text = refusal("tcp", "l0");
    EXPECT_TRUE(has(text, "devices \"l0\" names no device")) << text;
    EXPECT_TRUE(has(text, "tcp has ")) << text;
    EXPECT_TRUE(has(text, "lo")) << text;
    EXPECT_FALSE(has(text, "provider")) << text;
    const std::string any = refusal("auto", "nosuch0,nosuch1");
    EXPECT_TRUE(has(any, "\"nosuch0,nosuch1\"")) << any;
    EXPECT_TRUE(has(any, "; shm has shm")) << any;
    const std::string excluded = refusal("shm", "^shm");
    EXPECT_TRUE(has(excluded, "devices \"^shm\" excludes every device; shm has shm")) << excluded;
}

TEST(Discovery, WhatLimitsLibfabricInTheEnvironmentIsNamed) {
    // libfabric has read it long ago, or finds nothing there
    const Variable path("FI_PROVIDER_PATH", "/nowhere"), tcp("FI_TCP_IFACE", "nosuch0"),
        net("FI_NET_IFACE", "nosuch1"), verbs("FI_VERBS_IFACE", "nosuch2");
    const std::string text = refusal("cxi", "");
    EXPECT_TRUE(has(text, "in the environment ")) << text;
    for (const char* part : {"FI_PROVIDER_PATH is \"/nowhere\"", "FI_TCP_IFACE is \"nosuch0\"",
                             "FI_NET_IFACE is \"nosuch1\"", "FI_VERBS_IFACE is \"nosuch2\""})
        EXPECT_TRUE(has(text, part)) << part << ": " << text;
}

/// Whatever interface the default route has.
TEST(Discovery, WhatLibfabricIsToldToOfferIsTaken) {
    const Variable tcp("FI_TCP_IFACE", "lo"), net("FI_NET_IFACE", "lo");
    for (const char* provider : {"tcp", "tcp-msg", "auto"}) {
        const std::vector<Device> devices = discover(provider, {});
        if (provider == std::string("auto") && !devices.front().family.starts_with("tcp")) continue;
        ASSERT_EQ(devices.size(), 1u) << provider;
        EXPECT_EQ(devices[0].name, "lo") << provider;
    }
}

TEST(Discovery, AMisspeltDeviceAmongOthersIsSaid) {
    const test::LogLines lines;
    static_cast<void>(discover("tcp", parse_device_filter("lo,eht0")));
    EXPECT_EQ(lines.count("devices names eht0, which no device is called"), 1);
    EXPECT_EQ(lines.count("tcp has "), 1);
    EXPECT_EQ(lines.count("names lo"), 0);
    static_cast<void>(discover("shm", parse_device_filter("^eht0,lo")));
    EXPECT_EQ(lines.count("devices excludes eht0, which no device is called; shm has shm"), 1);
    EXPECT_EQ(lines.count("excludes lo"), 0);  // an interface of this machine, for whom else the list may be
    static_cast<void>(discover("tcp", parse_device_filter("lo,eht1"), false, Absent::untold));
    EXPECT_EQ(lines.count("eht1"), 0);
}

}  // namespace
}  // namespace railyard::fabric
