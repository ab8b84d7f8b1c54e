// operator new that fails when a test says so. For the one file of a program that includes this; allocations
// in C do not fail.
#pragma once

#include <cstdlib>
#include <new>

namespace {
thread_local long allocations_left = -1;  // until one fails on this thread; negative: none does
thread_local bool one_failed = false;

bool fails_now() noexcept {
    if (allocations_left < 0 || allocations_left-- > 0) return false;
    one_failed = true;
    return true;
}
}  // namespace

// Not inlined: the compiler would see malloc without free, or free without malloc.
[[gnu::noinline]] void* operator new(std::size_t size) {
    void* const memory = fails_now() ? nullptr : std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return fails_now() ? nullptr : std::malloc(size ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
