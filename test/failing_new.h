// operator new that fails when a test says so, on its own thread. For the one file of a program that includes
// this; allocations in C do not fail.
#pragma once

namespace {
thread_local long allocations_left = -1;  // until one fails on this thread; negative: none does
thread_local bool one_failed = false;

bool fails_now() noexcept {
    if (allocations_left < 0 || allocations_left-- > 0) return false;
    one_failed = true;
    return true;
}
}  // namespace

#include "new_hooks.h"
