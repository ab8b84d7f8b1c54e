// Hosts that the plugin was not made for: those before NIXL 1.0 name the interface's version as later ones
// do.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "host/plugin_loader.h"

namespace railyard::test {
namespace {

void* symbol(const std::string& library, const char* name) {
    void* const image = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    EXPECT_NE(image, nullptr) << dlerror();
    return image != nullptr ? dlsym(image, name) : nullptr;
}

/// The table that the plugin gives to this host, and what it says meanwhile.
std::pair<const void*, std::string> table_for(const char* variable) {
    using Init = const void* (*)();
    const char* const host = std::getenv(variable);
    if (host == nullptr) return {nullptr, std::string(variable) + " is not set"};
    const auto init = reinterpret_cast<Init>(
        symbol(host::plugin_directory("") + "/libplugin_RAILYARD.so", "nixl_plugin_init"));
    const auto call_init = reinterpret_cast<const void* (*)(Init)>(symbol(host, "call_init"));
    if (init == nullptr || call_init == nullptr) return {nullptr, "nothing to call"};
    testing::internal::CaptureStderr();
    const void* const table = call_init(init);
    return {table, testing::internal::GetCapturedStderr()};
}

TEST(OlderHost, GetsNoTableAndOneLineAProcess) {
    std::string all;
    for (const char* host : {"RAILYARD_HOST_0_10", "RAILYARD_HOST_0_10", "RAILYARD_HOST_0_5"}) {
        const auto [table, said] = table_for(host);
        EXPECT_EQ(table, nullptr) << host;
        all += said;
    }
    const std::string line = "older than 1.0: its plugin interface is another; install nixl >= 1.0";
    EXPECT_NE(all.find(line), std::string::npos) << all;
    EXPECT_EQ(all.find(line), all.rfind(line)) << all;
}

TEST(NewerHost, GetsTheTable) {
    const auto [table, said] = table_for("RAILYARD_HOST_1_0");
    EXPECT_NE(table, nullptr) << said;
    EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace railyard::test
