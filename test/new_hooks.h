// operator new that fails where fails_now() says so, which the one file of a program that includes this
// defines in its anonymous namespace before. Allocations in C do not fail.
#pragma once

#include <cstdlib>
#include <new>

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
