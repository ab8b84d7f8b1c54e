// Counts every allocation of the program while `counting` is set: for the one file of it that includes this.
#pragma once

#include <atomic>

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

void count_allocation() {
    if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

#include "allocation_hooks.h"
