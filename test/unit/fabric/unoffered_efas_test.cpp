// EFAs that the kernel has, by a tree like its own, and libfabric does not offer.
#include "fabric/unoffered_efas.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "common/status.h"
#include "log_lines.h"
#include "rdma_devices.h"

namespace railyard::fabric {
namespace unoffered_efas_test {

const test::RdmaDevices::List mixed{
    {"rdmap80s0", "0x1d0f\n"}, {"mlx5_0", "0x15b3\n"}, {"rdmap79s0", "0x1d0f\n"}, {"rxe0", "nonsense"}};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// What libfabric has, of one provider.
InfoPtr list_of(const char* provider) {
    InfoPtr list(fi_allocinfo());
    list->fabric_attr->prov_name = strdup(provider);
    return list;
}

TEST(UnofferedEfas, AreNamedWithTheCauses) {
    const test::RdmaDevices kernel(mixed);
    const std::string text = unoffered_efas({}, list_of("tcp").get(), kernel.place());
    for (const char* part : {"EFAs (rdmap79s0, rdmap80s0)", "without the efa provider", "/dev/infiniband",
                             "#12708", "#10990", "railyard-info doctor"})
        EXPECT_TRUE(has(text, part)) << part << ": " << text;
    EXPECT_EQ(unoffered_efas({}, nullptr, kernel.place()), text) << "libfabric has nothing at all";
    EXPECT_EQ(unoffered_efas({}, list_of("efa").get(), kernel.place()), "");
}

TEST(UnofferedEfas, OfManyTheFirstAreNamed) {
    test::RdmaDevices::List many;
    for (int i = 100; i < 132; ++i)
        many.emplace_back("rdmap" + std::to_string(i) + "s0", "0x1d0f");
    const test::RdmaDevices kernel(many);
    const std::string text = unoffered_efas({}, nullptr, kernel.place());
    EXPECT_TRUE(has(text, "(rdmap100s0, rdmap101s0, rdmap102s0, rdmap103s0 and 28 more)")) << text;
}

TEST(UnofferedEfas, NothingIsSaidWhereNoneIsMeant) {
    const test::RdmaDevices kernel(mixed), others(test::RdmaDevices::List{{"mlx5_0", "0x15b3\n"}});
    EXPECT_EQ(unoffered_efas({}, nullptr, others.place()), "");
    EXPECT_EQ(unoffered_efas({}, nullptr, "/no/such"), "");
    EXPECT_EQ(unoffered_efas(parse_device_filter("eth0"), nullptr, kernel.place()), "");
    EXPECT_TRUE(
        has(unoffered_efas(parse_device_filter("^rdmap79s0"), nullptr, kernel.place()), "(rdmap80s0)"));
}

TEST(UnofferedEfas, AutoWarnsAndANamedProviderDoesNot) {
    const test::RdmaDevices kernel(mixed);
    const test::LogLines log;
    const auto taken = [&](const char* provider, Absent absent, const char* after) {
        const std::string family =
            discover(provider, {}, false, absent, after, kernel.place()).front().family;
        const long lines = log.count("and libfabric offers none of them");
        test::LogLines::clear();
        return family.starts_with("efa") ? -1 : lines;
    };
    if (taken("auto", Absent::untold, "") < 0) GTEST_SKIP() << "this machine has EFAs";
    EXPECT_EQ(taken("auto", Absent::told, ""), 1);
    EXPECT_EQ(taken("auto", Absent::untold, ""), 0);
    EXPECT_EQ(taken("auto", Absent::told, "tcp"), 0) << "said before";
    EXPECT_EQ(taken("tcp", Absent::told, ""), 0);
    EXPECT_EQ(taken("shm", Absent::told, ""), 0);
}

TEST(UnofferedEfas, WhoAsksForEfaIsTold) {
    const test::RdmaDevices kernel(mixed);
    const auto refusal = [&](const char* provider) -> std::string {
        try {
            static_cast<void>(discover(provider, {}, false, Absent::told, {}, kernel.place()));
        } catch (const Error& error) {
            return error.what();
        }
        return "found something";
    };
    if (refusal("efa") == "found something") GTEST_SKIP() << "this machine has EFAs";
    for (const char* provider : {"efa", "efa-direct"})
        EXPECT_TRUE(has(refusal(provider), "the kernel has EFAs (rdmap79s0, rdmap80s0)"))
            << refusal(provider);
    EXPECT_FALSE(has(refusal("cxi"), "EFAs"));
}

}  // namespace unoffered_efas_test
}  // namespace railyard::fabric
