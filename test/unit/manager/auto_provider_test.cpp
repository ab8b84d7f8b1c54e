// What `auto` does where devices are there and none of their rails opens: fi_fabric is ours here.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <filesystem>
#include <string_view>

#include "fabric/choices.h"
#include "log_lines.h"
#include "manager/rail_manager.h"
#include "rdma_devices.h"

namespace railyard::auto_provider_test {

bool refuses_tcp = false, refuses_all = false;

bool is_of_tcp(std::string_view provider) {
    for (const fabric::Choice& choice : fabric::choices_for("tcp"))
        if (choice.provider == provider) return true;
    return false;
}

}  // namespace railyard::auto_provider_test

namespace auto_provider = railyard::auto_provider_test;

extern "C" int fi_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    if (auto_provider::refuses_all ||
        (auto_provider::refuses_tcp && auto_provider::is_of_tcp(attr->prov_name)))
        return -FI_ENODATA;
    return reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"))(attr, fabric, context);
}

namespace railyard::auto_provider_test {

class AutoProvider : public testing::Test {
  protected:
    struct NullSink final : ControlSink {
        bool on_control(std::span<const std::byte>) noexcept override { return true; }
    };
    ~AutoProvider() override { refuses_tcp = refuses_all = false; }
    std::string opened(const ParamMap& params, const std::filesystem::path& rdma_devices = {}) {
        const RailManager manager(Params::parse(params), false, sink_, rdma_devices);
        EXPECT_GE(manager.size(), 1u);
        return manager.provider();
    }
    std::string refused(const ParamMap& params) {
        try {
            return "opened " + opened(params);
        } catch (const Error& error) {
            return error.what();
        }
    }
    NullSink sink_;
    test::LogLines log_;
};

TEST_F(AutoProvider, GoesOnWhereNoRailOfAFamilyOpens) {
    const std::string usual = opened({});
    if (!is_of_tcp(usual)) GTEST_SKIP() << "needs tcp as what auto takes, not " << usual;
    EXPECT_EQ(log_.count("auto goes on"), 0);
    refuses_tcp = true;
    EXPECT_EQ(opened({}), "shm");
    EXPECT_EQ(log_.count("no rail of tcp opens (fi_fabric"), 1) << "the family, and why";
    EXPECT_EQ(log_.count("auto goes on to shm"), 1);
}

/// Over tcp where the machine has EFAs, nobody would look.
TEST_F(AutoProvider, GoesPastEfasThatLibfabricLeavesOutAndSaysSo) {
    if (!is_of_tcp(opened({}))) GTEST_SKIP() << "needs tcp as what auto takes";
    const test::RdmaDevices none(test::RdmaDevices::List{}),
        efas(test::RdmaDevices::List{{"rdmap79s0", "0x1d0f\n"}, {"mlx5_0", "0x15b3\n"}});
    opened({}, none.place());
    EXPECT_EQ(log_.count("EFAs"), 0);
    opened({}, efas.place());
    EXPECT_EQ(log_.count("auto takes tcp: the kernel has EFAs (rdmap79s0)"), 1);
    EXPECT_EQ(log_.count("EFAs"), 1);
    refuses_tcp = true;
    opened({}, efas.place());
    EXPECT_EQ(log_.count("EFAs"), 1) << "once a process, and not again as it goes on to shm";
}

TEST_F(AutoProvider, ANamedProviderIsWhatWasAskedFor) {
    refuses_tcp = true;
    const std::string text = refused({{"provider", "tcp"}, {"devices", "lo"}});
    EXPECT_NE(text.find("no rail could be opened; fi_fabric"), std::string::npos) << text;
    EXPECT_EQ(log_.count("auto goes on"), 0);
}

TEST_F(AutoProvider, WhereNothingOpensTheReasonsOfAllAreSaid) {
    refuses_all = true;
    const std::string text = refused({});
    EXPECT_NE(text.find("no rail could be opened; fi_fabric"), std::string::npos) << text;
    EXPECT_NE(text.find("shm"), std::string::npos) << text;
    refuses_all = false;
    refuses_tcp = true;
    const std::string alone = refused({{"devices", "lo"}});
    EXPECT_NE(alone.find("no rail could be opened; fi_fabric"), std::string::npos)
        << "devices allows no other: " << alone;
}

}  // namespace railyard::auto_provider_test
