// A machine without a driver: meson.build puts a libcuda.so.1 that is none where dlopen looks first.
#include <gtest/gtest.h>

#include "cuda/driver.h"
#include "log_lines.h"

namespace {

TEST(NoDriver, IsNoneAndSaidOnce) {
    const railyard::test::LogLines log(railyard::log::Level::info);
    for (int i = 0; i < 3; ++i) {
        const railyard::cuda::DriverLookup found = railyard::cuda::find_driver();
        EXPECT_FALSE(found.driver);
        EXPECT_NE(found.absent_because, "");
    }
    EXPECT_EQ(log.count("no GPU memory: "), 1);
}

}  // namespace
