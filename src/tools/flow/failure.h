// What ends a run of railyard-flow: the message is for the user.
#pragma once

#include <stdexcept>

#include "common/usage_error.h"

namespace railyard::tools::flow {

/// Exit status 1.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Exit status 2.
using railyard::UsageError;

}  // namespace railyard::tools::flow
