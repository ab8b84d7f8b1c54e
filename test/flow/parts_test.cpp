// What flows are made of, without a fabric.
#include <gtest/gtest.h>

#include "flow/geometry.h"

namespace railyard::flow {
namespace {

TEST(Geometry, Places) {
    EXPECT_EQ(GrainGeometry(2, 10, 1, 4).units(), 3u);
}

}  // namespace
}  // namespace railyard::flow
