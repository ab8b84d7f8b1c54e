// The flow API over each fabric of RAILYARD_TEST_FLOWS.
#pragma once

#include <gtest/gtest.h>

#include "flow_program.h"

namespace railyard::flow::test {

class FlowTest : public testing::TestWithParam<Fabric> {
  protected:
    Instance instance_;
};

constexpr std::size_t ring_size = 6;
/// Several units over several rails, the last of them short.
constexpr std::size_t grain_length = 1'300'001;

}  // namespace railyard::flow::test
