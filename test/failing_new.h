// operator new that fails when a test says so, on its own thread. For the one file of a program that includes
// this; allocations in C do not fail.
#pragma once

#include "allocations_left.h"

namespace {
thread_local bool one_failed = false;

bool fails_now() noexcept {
    if (allocations_left < 0 || allocations_left-- > 0) return false;
    one_failed = true;
    return true;
}
}  // namespace

#include "new_hooks.h"
