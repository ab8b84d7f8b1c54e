// fi_getinfo: what is offered, and how hints of real clients are answered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

std::vector<std::string> fabrics(const fi_info* list) {
    std::vector<std::string> names;
    for (; list; list = list->next)
        names.push_back(list->fabric_attr->name);
    return names;
}

std::size_t count(const fi_info* list, const std::string& fabric) {
    const auto names = fabrics(list);
    return static_cast<std::size_t>(std::count(names.begin(), names.end(), fabric));
}

TEST(Info, DirectOfAllNicsBeforeEfaOfAllNics) {
    const InfoPtr hints = make_hints();
    const InfoPtr list = get_info(hints.get());
    std::vector<std::string> expected(test_nics, "efa-direct");
    expected.insert(expected.end(), test_nics, "efa");
    EXPECT_EQ(fabrics(list.get()), expected);
    unsigned index = 0;
    for (const fi_info* info = list.get(); info; info = info->next, ++index)
        EXPECT_EQ(info->domain_attr->name, nic_name(index % test_nics) + "-rdm");
}

TEST(Info, AttributesOfTheDevice) {
    const InfoPtr list = get_info(make_hints("efa-direct").get());
    const fi_info& info = *list;
    EXPECT_EQ(info.src_addrlen, 32U);
    EXPECT_EQ(info.addr_format, static_cast<std::uint32_t>(FI_ADDR_EFA));
    EXPECT_EQ(info.tx_attr->size, 4096U);
    EXPECT_EQ(info.tx_attr->iov_limit, 4U);
    EXPECT_EQ(info.tx_attr->rma_iov_limit, 1U);
    EXPECT_EQ(info.tx_attr->inject_size, 32U);
    EXPECT_EQ(info.tx_attr->msg_order, 0U);
    EXPECT_EQ(info.rx_attr->size, 8192U);
    EXPECT_EQ(info.domain_attr->mr_key_size, 4U);
    EXPECT_EQ(info.domain_attr->cq_data_size, 4U);
    EXPECT_EQ(info.domain_attr->mr_iov_limit, 1U);
    EXPECT_EQ(info.domain_attr->mr_mode, FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
    EXPECT_EQ(info.domain_attr->data_progress, FI_PROGRESS_AUTO);
    EXPECT_EQ(info.ep_attr->max_msg_size, std::size_t{1} << 30);
    EXPECT_EQ(info.mode, FI_CONTEXT2);
    EXPECT_STREQ(info.fabric_attr->prov_name, "efa");
}

TEST(Info, AttributesOfTheProtocol) {
    const InfoPtr hints = make_hints("efa");
    const InfoPtr list = get_info(hints.get());
    EXPECT_EQ(list->mode, 0U);
    EXPECT_EQ(list->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    EXPECT_EQ(list->ep_attr->max_msg_size, SIZE_MAX);
    EXPECT_GE(list->tx_attr->inject_size, 4096U);
    EXPECT_EQ(list->tx_attr->msg_order, 0U) << "not asked for";
    EXPECT_EQ(list->tx_attr->op_flags, 0U) << "sends complete when they are delivered if that is asked for";
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    const InfoPtr asked = get_info(hints.get());
    EXPECT_EQ(asked->tx_attr->msg_order, FI_ORDER_SAS);
    EXPECT_EQ(asked->tx_attr->op_flags, FI_DELIVERY_COMPLETE);
}

TEST(Info, NicOfEachInfoSaysWhereItSits) {
    const InfoPtr list = get_info(make_hints("efa-direct").get());
    const InfoPtr copy(fi_dupinfo(list->next));
    ASSERT_TRUE(copy && copy->nic);
    EXPECT_STREQ(copy->nic->device_attr->name, nic_name(1).c_str());
    EXPECT_STREQ(copy->nic->device_attr->device_id, "0xefa1");
    EXPECT_EQ(copy->nic->bus_attr->bus_type, FI_BUS_PCI);
    EXPECT_EQ(copy->nic->bus_attr->attr.pci.bus_id, 0x11);
    EXPECT_EQ(copy->nic->link_attr->speed, 100'000'000'000U);
    EXPECT_EQ(copy->nic->link_attr->mtu, 8760U);
    EXPECT_EQ(copy->nic->link_attr->state, FI_LINK_UP);
}

TEST(Info, NoHintsNoModesAllInfos) {
    EXPECT_EQ(count(get_info(nullptr).get(), "efa-direct"), test_nics);
    const InfoPtr hints = make_hints();
    hints->mode = 0;
    hints->domain_attr->mr_mode = 0;
    const InfoPtr list = get_info(hints.get());
    EXPECT_EQ(count(list.get(), "efa-direct"), test_nics);
    EXPECT_EQ(count(list.get(), "efa"), test_nics);
}

TEST(Info, ContextAloneIsTheProtocolOnly) {
    const InfoPtr hints = make_hints();
    hints->mode = FI_CONTEXT;
    const InfoPtr list = get_info(hints.get());
    EXPECT_EQ(count(list.get(), "efa-direct"), 0U);
    EXPECT_EQ(count(list.get(), "efa"), test_nics);
}

TEST(Info, WithoutLocalRegistrationNoDirect) {
    const InfoPtr hints = make_hints();
    hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
    const InfoPtr list = get_info(hints.get());
    EXPECT_EQ(count(list.get(), "efa-direct"), 0U);
    EXPECT_EQ(count(list.get(), "efa"), test_nics);
    EXPECT_EQ(list->domain_attr->mr_mode & FI_MR_LOCAL, 0);
}

TEST(Info, DeviceMemoryNeedsItsRegistrationMode) {
    const InfoPtr hints = make_hints();
    hints->caps |= FI_HMEM;
    EXPECT_FALSE(get_info(hints.get()));
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
    const InfoPtr list = get_info(hints.get());
    ASSERT_TRUE(list);
    EXPECT_TRUE(list->caps & FI_HMEM);
    EXPECT_TRUE(list->domain_attr->mr_mode & FI_MR_HMEM);
    EXPECT_FALSE(get_info(make_hints().get())->caps & FI_HMEM);
}

TEST(Info, MessagesAloneAreShortOnDirect) {
    const InfoPtr hints = make_hints("efa-direct");
    hints->caps = FI_MSG;
    const InfoPtr list = get_info(hints.get());
    ASSERT_TRUE(list);
    EXPECT_EQ(list->ep_attr->max_msg_size, 8760U);
    EXPECT_FALSE(list->caps & FI_RMA);
    hints->ep_attr->max_msg_size = 10'000;
    EXPECT_FALSE(get_info(hints.get()));
}

TEST(Info, NamesChoose) {
    const InfoPtr hints = make_hints();
    hints->domain_attr->name = strdup((nic_name(2) + "-rdm").c_str());
    const InfoPtr list = get_info(hints.get());
    EXPECT_EQ(fabrics(list.get()), (std::vector<std::string>{"efa-direct", "efa"}));
    EXPECT_STREQ(list->nic->device_attr->name, nic_name(2).c_str());
}

TEST(Info, WhatItDoesNotHave) {
    for (const std::uint64_t caps : {FI_ATOMIC, FI_MULTICAST, FI_COLLECTIVE}) {
        const InfoPtr hints = make_hints();
        hints->caps |= caps;
        EXPECT_FALSE(get_info(hints.get()));
    }
    const InfoPtr tagged = make_hints();
    tagged->caps |= FI_TAGGED;
    EXPECT_EQ(count(get_info(tagged.get()).get(), "efa-direct"), 0U);
    const InfoPtr automatic = make_hints();
    automatic->domain_attr->data_progress = FI_PROGRESS_AUTO;
    EXPECT_EQ(count(get_info(automatic.get()).get(), "efa"), 0U);
    const InfoPtr connected = make_hints();
    connected->ep_attr->type = FI_EP_MSG;
    EXPECT_FALSE(get_info(connected.get()));
    const InfoPtr deep = make_hints();
    deep->tx_attr->size = 4097;
    EXPECT_FALSE(get_info(deep.get()));
}

TEST(Info, OldApiVersionsGetNoDeviceRdma) {
    const InfoPtr list = get_info(make_hints().get(), FI_VERSION(1, 11));
    EXPECT_EQ(count(list.get(), "efa-direct"), 0U);
    EXPECT_EQ(count(list.get(), "efa"), test_nics);
}

TEST(Info, ReadOnlyDevicesOfferNoDirectRdma) {
    Control control;
    control.set("rdma_write=off", {"*", nic_name(1)});
    const InfoPtr list = get_info(make_hints().get());
    EXPECT_EQ(count(list.get(), "efa-direct"), test_nics - 1);
    EXPECT_EQ(count(list.get(), "efa"), test_nics);
    control.reset();
}

TEST(Info, RemovedDevicesAreNotListed) {
    Control control;
    control.set("gone=1", {"*", nic_name(0)});
    control.set("link=down", {"*", nic_name(1)});
    const InfoPtr list = get_info(make_hints("efa").get());
    EXPECT_EQ(count(list.get(), "efa"), test_nics - 1);
    EXPECT_EQ(list->nic->link_attr->state, FI_LINK_DOWN);
    control.reset();
}

}  // namespace
}  // namespace simefa::test
