// Which providers a setting stands for, on lists that no libfabric here would give.
#include "fabric/choices.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>

#include "log_lines.h"

namespace railyard::fabric {
namespace {

constexpr std::size_t infiniband_address_size = 48;  // sockaddr_ib, which has no header here

/// As fi_getinfo chains them: provider, device.
InfoPtr list_of(std::initializer_list<std::pair<const char*, const char*>> entries) {
    InfoPtr list;
    for (auto entry = std::rbegin(entries); entry != std::rend(entries); ++entry) {
        fi_info* info = fi_allocinfo();
        info->fabric_attr->prov_name = strdup(entry->first);
        info->fabric_attr->name = strdup("net");
        info->domain_attr->name = strdup(entry->second);
        info->next = list.release();
        list.reset(info);
    }
    return list;
}

/// An address of a format, for an entry that owns it.
void give_address(fi_info& info, std::uint32_t format) {
    info.addr_format = format;
    if (format == FI_SOCKADDR_IN6) {
        info.src_addrlen = sizeof(sockaddr_in6);
    } else {
        info.src_addrlen = format == FI_SOCKADDR_IN ? sizeof(sockaddr_in) : infiniband_address_size;
    }
    info.src_addr = std::calloc(1, info.src_addrlen);
    if (format == FI_SOCKADDR_IN6)
        inet_pton(AF_INET6, "2001:db8::1", &static_cast<sockaddr_in6*>(info.src_addr)->sin6_addr);
}

/// One device over `verbs;ofi_rxm`, an entry for each format.
InfoPtr with_addresses(const std::vector<std::uint32_t>& formats) {
    InfoPtr list;
    for (auto format = formats.rbegin(); format != formats.rend(); ++format) {
        InfoPtr first = list_of({{"verbs;ofi_rxm", "mlx5_0"}});
        give_address(*first, *format);
        first->next = list.release();
        list = std::move(first);
    }
    return list;
}

std::vector<std::string> families_of(std::string_view provider, fi_ep_type kind) {
    std::vector<std::string> names;
    for (const Choice& choice : choices_for(provider)) {
        EXPECT_EQ(choice.kind, kind) << choice.family;
        if (names.empty() || names.back() != choice.family) names.emplace_back(choice.family);
    }
    return names;
}

TEST(Choices, AutoAsksForNoConnections) {
    EXPECT_EQ(families_of("auto", FI_EP_RDM),
              (std::vector<std::string>{"efa-direct", "efa", "cxi", "verbs", "tcp", "shm"}));
}

TEST(Choices, AutoGoesOnBehindAFamily) {
    std::vector<std::string> names;
    for (const Choice& choice : choices_for("auto", "cxi"))
        names.emplace_back(choice.provider);
    EXPECT_EQ(names, (std::vector<std::string>{"verbs;ofi_rxm", "net", "tcp", "tcp;ofi_rxm", "shm"}));
    EXPECT_EQ(choices_for("auto", "tcp").size(), 1u) << "none of its providers";
    EXPECT_TRUE(choices_for("auto", "shm").empty());
}

TEST(Choices, AFamilyWithAConnectionAPeerIsThatOfTheCoreProvider) {
    for (const auto& [family, provider] : {std::pair{"verbs-msg", "verbs"}, std::pair{"tcp-msg", "tcp"}}) {
        const Choice first = choices_for(family).front();
        EXPECT_EQ(first.family, family);
        EXPECT_EQ(first.provider, provider);
        EXPECT_EQ(first.kind, FI_EP_MSG);
    }
}

TEST(Choices, AnExactNameBelongsToTheFamilyOfItsCore) {
    for (const auto& [provider, family] :
         {std::pair{"verbs;ofi_rxd", "verbs"}, std::pair{"net", "tcp"}, std::pair{"psm3", "psm3"}}) {
        const Choice last = choices_for(provider).back();
        EXPECT_EQ(last.family, family);
        EXPECT_EQ(last.provider, provider);
        EXPECT_EQ(last.kind, FI_EP_RDM);
    }
}

TEST(Choices, DevicesOfVerbsWithConnections) {
    const InfoPtr list = list_of({{"tcp", "eth0"},
                                  {"verbs", "mlx5_0"},
                                  {"verbs;ofi_rxm", "mlx5_0"},
                                  {"verbs", "mlx5_1"},
                                  {"verbs", "mlx5_0"}});
    const std::vector<Device> devices = devices_of(list.get(), choices_for("verbs-msg").front());
    ASSERT_EQ(devices.size(), 2u) << "each device once, and of that provider alone";
    EXPECT_EQ(devices[0].name, "mlx5_0");
    EXPECT_EQ(devices[1].name, "mlx5_1");
    for (const Device& device : devices) {
        EXPECT_EQ(device.family, "verbs-msg");
        EXPECT_EQ(device.provider, "verbs-msg") << "peers without connections are told apart by it";
        EXPECT_STREQ(device.info->fabric_attr->prov_name, "verbs");
        EXPECT_EQ(device.info->next, nullptr);
    }
    const std::vector<Device> layered = devices_of(list.get(), choices_for("verbs").front());
    ASSERT_EQ(layered.size(), 1u);
    EXPECT_EQ(layered[0].provider, "verbs;ofi_rxm");
    EXPECT_TRUE(devices_of(list.get(), choices_for("cxi").front()).empty());
}

TEST(Choices, AnInfiniBandAddressIsTakenWhereThereIsNoOther) {
    constexpr std::uint32_t in = FI_SOCKADDR_IN, in6 = FI_SOCKADDR_IN6, ib = FI_SOCKADDR_IB;
    const std::pair<std::vector<std::uint32_t>, std::uint32_t> cases[] = {
        {{in, in6, ib}, in}, {{in, ib, in6}, in}, {{in6, in, ib}, in}, {{in6, ib, in}, in},
        {{ib, in, in6}, in}, {{ib, in6, in}, in}, {{in, ib}, in},      {{ib, in}, in},
        {{in6, ib}, in6},    {{ib, in6}, in6},    {{ib}, ib}};
    for (const auto& [formats, best] : cases) {
        const InfoPtr list = with_addresses(formats);
        const std::vector<Device> devices = devices_of(list.get(), choices_for("verbs").front());
        ASSERT_EQ(devices.size(), 1u);
        EXPECT_EQ(devices[0].info->addr_format, best) << testing::PrintToString(formats);
    }
}

/// `verbs;ofi_rxm` asks for an IP address there, and says so when its endpoint is opened.
TEST(Choices, ADeviceWithAnInfiniBandAddressAloneIsLeftOutBelowTheLibraryThatOpensIt) {
    const InfoPtr list = list_of(
        {{"verbs;ofi_rxm", "mlx5_0"}, {"verbs;ofi_rxm", "mlx5_1"}, {"verbs", "mlx5_0"}, {"verbs", "mlx5_1"}});
    const std::uint32_t formats[] = {FI_SOCKADDR_IB, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_SOCKADDR_IN6};
    fi_info* info = list.get();
    for (const std::uint32_t format : formats) {
        give_address(*info, format);
        info = info->next;
    }
    const auto left = [&](const char* provider, std::uint32_t library) {
        std::vector<Device> devices = devices_of(list.get(), choices_for(provider).front());
        leave_out_unopenable(devices, library);
        std::vector<std::string> names;
        for (const Device& device : devices)
            names.push_back(device.name);
        return names;
    };
    const std::vector<std::string> both{"mlx5_0", "mlx5_1"}, with_ip{"mlx5_1"};
    test::LogLines log;
    EXPECT_EQ(left("verbs", FI_VERSION(2, 3)), both);
    EXPECT_EQ(left("verbs", FI_VERSION(3, 0)), both);
    EXPECT_EQ(left("verbs-msg", FI_VERSION(1, 17)), both) << "the provider itself takes such addresses";
    EXPECT_EQ(log.count(), 0);
    EXPECT_EQ(left("verbs", FI_VERSION(2, 2)), with_ip);
    EXPECT_EQ(log.count(), 1);
    EXPECT_EQ(log.count("mlx5_0"), 1);
    EXPECT_EQ(log.count("an IP address"), 1);
    EXPECT_EQ(left("verbs", FI_VERSION(1, 17)), with_ip);
}

/// Whoever registers memory binds it to the endpoint, without its role.
TEST(Choices, WhereMemoryIsBoundToTheEndpointTheProviderIsToLock) {
    const InfoPtr list = list_of({{"cxi", "cxi0"}, {"cxi", "cxi1"}});
    list->domain_attr->mr_mode = FI_MR_ENDPOINT;
    list->domain_attr->threading = list->next->domain_attr->threading = FI_THREAD_COMPLETION;
    const std::vector<Device> devices = devices_of(list.get(), choices_for("cxi").front());
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].info->domain_attr->threading, FI_THREAD_SAFE);
    EXPECT_EQ(devices[1].info->domain_attr->threading, FI_THREAD_COMPLETION);
}

/// cxi lists what it offers with keys of its own first, which let everybody at everything (gotchas.md).
TEST(Choices, OfCxiWhatTakesKeysOfOurs) {
    const auto offer = [](fi_info& info, int more, std::size_t key_size) {
        info.domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | more;
        info.domain_attr->mr_key_size = key_size;
    };
    const InfoPtr list = list_of({{"cxi", "cxi0"}, {"cxi", "cxi0"}, {"cxi", "cxi0"}, {"cxi", "cxi1"}});
    fi_info* const second = list->next;
    offer(*list, FI_MR_PROV_KEY, 8);
    offer(*second, 0, 4);
    offer(*second->next, FI_MR_PROV_KEY, 8);
    offer(*second->next->next, FI_MR_PROV_KEY, 8);
    const std::vector<Device> devices = devices_of(list.get(), choices_for("cxi").front());
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].name, "cxi0");
    EXPECT_EQ(devices[0].info->domain_attr->mr_mode, FI_MR_ENDPOINT | FI_MR_ALLOCATED);
    EXPECT_FALSE(devices[0].caps.provider_keys);
    EXPECT_EQ(devices[0].caps.key_size, 4u);
    EXPECT_EQ(devices[0].info->domain_attr->threading, FI_THREAD_SAFE);
    EXPECT_EQ(devices[1].name, "cxi1") << "in libfabric's order";
    EXPECT_TRUE(devices[1].caps.provider_keys) << "where there is nothing else";
}

TEST(Choices, OfOthersTheFirstOffer) {
    const InfoPtr list = list_of({{"verbs;ofi_rxm", "mlx5_0"}, {"verbs;ofi_rxm", "mlx5_0"}});
    list->domain_attr->mr_mode = FI_MR_PROV_KEY;
    const std::vector<Device> devices = devices_of(list.get(), choices_for("verbs").front());
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_TRUE(devices[0].caps.provider_keys);
}

/// cxi grants FI_HMEM without FI_MR_HMEM, and takes the description of a dmabuf for an address.
TEST(Choices, GpuMemoryIsAskedOfEfaAndVerbs) {
    for (const char* family : {"efa-direct", "efa", "verbs"})
        EXPECT_TRUE(may_reach_gpus(family)) << family;
    for (const char* family : {"cxi", "tcp", "shm", "tcp-msg"})
        EXPECT_FALSE(may_reach_gpus(family)) << family;
}

TEST(Choices, TcpWithAndWithoutConnectionsIsTcp) {
    EXPECT_TRUE(is_tcp("tcp-msg") && is_tcp("tcp"));
    EXPECT_FALSE(is_tcp("verbs-msg") || is_tcp("tcp;ofi_rxm"));
}

}  // namespace
}  // namespace railyard::fabric
