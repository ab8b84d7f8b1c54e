// What a test must not leave behind on the fake driver.
#pragma once

#include <gtest/gtest.h>

#include "control.h"

namespace fakecuda {

/// As many of everything that somebody has to give back as there were before.
inline void expect_nothing_left(const fakecuda_statistics& before, const fakecuda_statistics& after) {
    EXPECT_EQ(after.primary_retains, before.primary_retains);
    EXPECT_EQ(after.contexts, before.contexts);
    EXPECT_EQ(after.streams, before.streams);
    EXPECT_EQ(after.events, before.events);
    EXPECT_EQ(after.device_allocations, before.device_allocations);
    EXPECT_EQ(after.modules, before.modules);
    EXPECT_EQ(after.imports, before.imports);
    EXPECT_EQ(after.host_allocations, before.host_allocations);
}

}  // namespace fakecuda
