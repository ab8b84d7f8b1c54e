// Test programs run on four NICs of their own making, in a cluster of their own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "side.h"

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const std::string id = std::to_string(getpid());
    const auto xml = std::filesystem::temp_directory_path() / ("simefa-test-" + id + ".xml");
    std::ofstream(xml) << simefa::test::topology_xml({0xefa1, 0xefa1, 0xefa1, 0xefa1});
    setenv("SIMEFA_XML", xml.c_str(), 1);
    setenv("SIMEFA_NAMESPACE", ("test-" + id).c_str(), 1);
    setenv("FI_PROVIDER", "efa", 1);
    // FI_PROVIDER_PATH comes from the build.
    const pid_t self = getpid();
    const int result = RUN_ALL_TESTS();
    if (getpid() == self) std::filesystem::remove(xml);
    return result;
}
