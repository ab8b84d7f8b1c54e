// main() of test programs on the simulated EFA machine: each runs in a cluster of its own and must leave
// nothing of it behind. FI_PROVIDER_PATH, FI_PROVIDER and HWLOC_XMLFILE come from meson.build; SIMEFA_SET
// disturbs all NICs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "simulated_machine.h"

namespace railyard::test {
namespace {

std::unique_ptr<simefa::Control>& attached() {
    static std::unique_ptr<simefa::Control> control;
    return control;
}

}  // namespace

simefa::Control& cluster() {
    return *attached();
}

}  // namespace railyard::test

int main(int argc, char** argv) {
    using railyard::test::attached;
    testing::InitGoogleTest(&argc, argv);
    if (!std::getenv("FI_PROVIDER_PATH") || !std::getenv("HWLOC_XMLFILE")) {
        std::fprintf(stderr, "FI_PROVIDER_PATH and HWLOC_XMLFILE are not set: run through `meson test`\n");
        return 2;
    }
    setenv("SIMEFA_NAMESPACE", ("conformance-" + std::to_string(getpid())).c_str(), 1);
    attached() = std::make_unique<simefa::Control>();
    const std::string directory = attached()->directory();
    int result = RUN_ALL_TESTS();
    attached().reset();
    // Rails of fabric efa may be closed by threads that their engine did not wait for (ADR 40).
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::filesystem::exists(directory) && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (std::filesystem::exists(directory)) {
        std::fprintf(stderr, "the tests left %s behind:\n", directory.c_str());
        for (const auto& entry : std::filesystem::directory_iterator(directory))
            std::fprintf(stderr, "  %s\n", entry.path().filename().c_str());
        std::filesystem::remove_all(directory);
        result = 1;
    }
    return result;
}
