#include "fabric/provider_caps.h"

#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>

#include "fabric/info.h"

namespace railyard::fabric {
namespace {

/// As cxi of libfabric 2.1 describes its devices.
InfoPtr cxi_info(int mr_mode, std::size_t key_size) {
    InfoPtr info(fi_allocinfo());
    info->fabric_attr->prov_name = strdup("cxi");
    info->fabric_attr->name = strdup("cxi");
    info->ep_attr->type = FI_EP_RDM;
    info->domain_attr->mr_mode = mr_mode;
    info->domain_attr->mr_key_size = key_size;
    info->domain_attr->cq_data_size = 8;
    return info;
}

TEST(Caps, CxiRefusesTheImmediateDataThatItOffers) {
    const InfoPtr info = cxi_info(FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY, 8);
    EXPECT_FALSE(provider_caps(*info).immediate_data);
    free(info->fabric_attr->prov_name);
    info->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
    EXPECT_TRUE(provider_caps(*info).immediate_data) << "who else says 8 bytes";
}

TEST(Caps, CxiTakesKeysOfOursFromAHundredOn) {
    const ProviderCaps caps = provider_caps(*cxi_info(FI_MR_ENDPOINT | FI_MR_ALLOCATED, 4));
    EXPECT_FALSE(caps.provider_keys);
    EXPECT_EQ(caps.key_size, 4u);
    EXPECT_EQ(caps.least_key, 100u);
    EXPECT_TRUE(caps.endpoint_registration);
    EXPECT_FALSE(caps.separate_sender);
    EXPECT_FALSE(caps.gpu_memory);
}

/// p4d and older have no RDMA WRITE; what says nothing of its generation may have it.
TEST(Caps, EfaWithRdmaWriteMayLimitThePagesOfARegistration) {
    const InfoPtr info = cxi_info(0, 4);
    EXPECT_FALSE(provider_caps(*info).may_limit_pages);
    free(info->fabric_attr->prov_name);
    info->fabric_attr->prov_name = strdup("efa");
    EXPECT_TRUE(provider_caps(*info).may_limit_pages);
    fid_nic nic{};
    fi_device_attr device{};
    nic.device_attr = &device;
    info->nic = &nic;
    EXPECT_TRUE(provider_caps(*info).may_limit_pages);
    char first[] = "0xefa0", second[] = "0xefa1";
    device.device_id = first;
    EXPECT_FALSE(provider_caps(*info).may_limit_pages);
    device.device_id = second;
    EXPECT_TRUE(provider_caps(*info).may_limit_pages);
    info->nic = nullptr;
}

TEST(Caps, NoIsWhatLibfabricTakesForIt) {
    for (const char* no : {"0", "no", "No", "FALSE", "off"})
        EXPECT_TRUE(says_no(no)) << no;
    for (const char* yes : {"1", "yes", "true", "on", "", "2"})
        EXPECT_FALSE(says_no(yes)) << yes;
    EXPECT_FALSE(says_no(nullptr));
}

TEST(Failures, ConnectionErrorsMeanThatThePeerIsGone) {
    for (int error : {FI_ECONNRESET, FI_ECONNREFUSED, FI_ENOTCONN, FI_ECANCELED, FI_EHOSTUNREACH,
                      FI_ETIMEDOUT, FI_ENODEV, int{FI_ENORX}}) {
        EXPECT_EQ(classify_failure(Codes::unread, error, 0), Status::remote_disconnect) << error;
    }
    for (int error : {int{FI_EIO}, int{FI_EINVAL}, int{FI_EACCES}, int{FI_EOTHER}})
        EXPECT_EQ(classify_failure(Codes::unread, error, 0), Status::backend);
}

TEST(Failures, TheCodesOfEfaAreReadOnEfaOnly) {
    for (int gone : {1, 2, 8, 9, 10, 13, 15, 4124, 4126, 4127}) {
        EXPECT_EQ(classify_failure(Codes::efa, FI_EIO, gone), Status::remote_disconnect) << gone;
        EXPECT_EQ(classify_failure(Codes::unread, FI_EIO, gone), Status::backend) << gone;
    }
    for (int other : {4, 5, 6, 7, 14, 18})
        EXPECT_EQ(classify_failure(Codes::efa, FI_EIO, other), Status::backend) << other;
}

/// c_return_code of the NIC; errno beside them is FI_EIO, but for those that cxi translates itself.
TEST(Failures, TheCodesOfCxiAreReadOnCxiOnly) {
    for (int gone : {19, 26}) {
        EXPECT_EQ(classify_failure(Codes::cxi, FI_EIO, gone), Status::remote_disconnect) << gone;
        EXPECT_EQ(classify_failure(Codes::efa, FI_EIO, gone), Status::backend) << gone;
        EXPECT_EQ(classify_failure(Codes::unread, FI_EIO, gone), Status::backend) << gone;
    }
    EXPECT_EQ(classify_failure(Codes::cxi, FI_EHOSTUNREACH, 2), Status::remote_disconnect);
    EXPECT_EQ(classify_failure(Codes::cxi, FI_ENOTCONN, 25), Status::remote_disconnect);
    for (int other : {1, 5, 6, 8, 9, 10, 13, 15, 16, 18, 27, 52})
        EXPECT_EQ(classify_failure(Codes::cxi, FI_EIO, other), Status::backend) << other;
}

/// ibv_wc_status: nobody has answered, or has had a receive buffer, for as long as the NIC tries.
TEST(Failures, TheCodesOfVerbsAreReadOnVerbsOnly) {
    for (int gone : {12, 13, 16, 20}) {
        EXPECT_EQ(classify_failure(Codes::verbs, FI_EIO, gone), Status::remote_disconnect) << gone;
        EXPECT_EQ(classify_failure(Codes::unread, FI_EIO, gone), Status::backend) << gone;
    }
    for (int other : {1, 2, 4, 6, 7, 8, 9, 10, 11, 19, 21})
        EXPECT_EQ(classify_failure(Codes::verbs, FI_EIO, other), Status::backend) << other;
    EXPECT_EQ(classify_failure(Codes::verbs, FI_ECANCELED, 5), Status::remote_disconnect) << "flushed";
    EXPECT_EQ(classify_failure(Codes::verbs, FI_EINVAL, 12), Status::backend) << "none of a completion";
}

TEST(Failures, ARefusedKeyIsKnownByTheCodeOfItsProvider) {
    EXPECT_TRUE(key_refused(Codes::verbs, 10));
    EXPECT_TRUE(key_refused(Codes::efa, 7));
    EXPECT_TRUE(key_refused(Codes::cxi, 18));
    EXPECT_FALSE(key_refused(Codes::efa, 18));
    EXPECT_FALSE(key_refused(Codes::cxi, 7));
    for (int code : {7, 18})
        EXPECT_FALSE(key_refused(Codes::unread, code)) << code;
    for (int code : {3, 4, 5, 6, 10, 14}) {
        EXPECT_FALSE(refused_here(Codes::cxi, code)) << code;
        EXPECT_FALSE(receiver_not_ready(Codes::cxi, FI_EIO, code)) << code;
        EXPECT_FALSE(unknown_at_target(Codes::cxi, code)) << code;
    }
}

ProviderCaps caps_of(const char* provider, fi_ep_type kind) {
    const InfoPtr info(fi_allocinfo());
    info->fabric_attr->prov_name = strdup(provider);
    info->ep_attr->type = kind;
    info->domain_attr->cq_data_size = 4;
    return provider_caps(*info);
}

/// Its shared receive context tells of such a write as of a message as long as what was written.
TEST(Capabilities, WritesOverConnectionsOfVerbsBringNoImmediateData) {
    EXPECT_FALSE(caps_of("verbs", FI_EP_MSG).immediate_data);
    EXPECT_TRUE(caps_of("verbs;ofi_rxm", FI_EP_RDM).immediate_data);
    EXPECT_TRUE(caps_of("tcp", FI_EP_MSG).immediate_data);
}

}  // namespace
}  // namespace railyard::fabric
