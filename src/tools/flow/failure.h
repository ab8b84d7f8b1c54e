// What ends a run of railyard-flow: the message is for the user.
#pragma once

#include <stdexcept>

namespace railyard::tools::flow {

/// Exit status 1.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Exit status 2: names the option and what to do.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace railyard::tools::flow
