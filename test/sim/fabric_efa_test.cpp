// Fabric efa, whose FI_MORE may be for ever, and which shares memory with peers on its host unless told not
// to.
#include <rdma/fi_endpoint.h>

#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "failover.h"

namespace railyard::test {
namespace {

constexpr const char* one_of_a = "rdmap79s0";
constexpr const char* one_of_b = "rdmap96s0";

class FabricEfa : public Failover {
  protected:
    FabricEfa() : Failover(1, {{"devices", one_of_a}}, one_of_b) {}
};

/// The first of a rail's operations wait for a handshake, 16 of them; what follows is refused. Whether that
/// is ever posted must not matter to them.
TEST_P(FabricEfa, WhatWaitedForAHandshakeIsRungFor) {
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < 32; ++i) {
        from.push_back(source_->local(i * 8192, 64));
        to.push_back({target_->address() + i * 8192, 64, &remote_});
    }
    Transfer* transfer = a_->prepare(Operation::write, from, to, "beta", std::nullopt);
    const Growth writes("writes", first_of_a);
    ASSERT_EQ(a_->post(*transfer), Status::in_progress);
    {
        const Disturbance nothing_taken("eagain_probability=1", first_of_a);
        drive(milliseconds(200));
        EXPECT_GE(writes.value(), 16u);
    }
    EXPECT_EQ(wait(*transfer), Status::ok);
    a_->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricEfa, testing::Values("efa"), efa_name);

/// A process that is killed in efa's shared memory leaves its locks to who writes to it.
TEST(FabricEfaEndpoint, IsKeptFromSharedMemory) {
    auto devices = fabric::discover("efa", fabric::parse_device_filter(one_of_a));
    ASSERT_EQ(devices.size(), 1u);
    const fabric::Domain domain(std::make_shared<const fabric::Device>(std::move(devices.front())), "rail");
    fabric::CompletionQueue queue(domain, 64, false);
    fabric::AddressVector addresses(domain);
    fabric::Endpoint endpoint(const_cast<fabric::Domain&>(domain), queue, addresses);
    constexpr int opt_shared_memory_permitted = 11;
    bool permitted = true;
    std::size_t length = sizeof(permitted);
    ASSERT_EQ(fi_getopt(endpoint.handle(), FI_OPT_ENDPOINT, opt_shared_memory_permitted, &permitted, &length),
              0);
    EXPECT_FALSE(permitted);
}

}  // namespace
}  // namespace railyard::test
