// A machine without a driver: meson.build puts a libcuda.so.1 that is none where dlopen looks first.
#include <gtest/gtest.h>

#include <atomic>

#include "common/log.h"
#include "cuda/driver.h"

namespace {

std::atomic<int> lines{0};

TEST(NoDriver, IsNoneAndSaidOnce) {
    railyard::log::set_level(railyard::log::Level::info);
    railyard::log::set_sink([](railyard::log::Level, const char* line) {
        if (std::string(line).find("no GPU memory: ") != std::string::npos) ++lines;
    });
    for (int i = 0; i < 3; ++i) {
        const railyard::cuda::DriverLookup found = railyard::cuda::find_driver();
        EXPECT_FALSE(found.driver);
        EXPECT_NE(found.absent_because, "");
    }
    railyard::log::set_sink(nullptr);
    EXPECT_EQ(lines, 1);
}

}  // namespace
