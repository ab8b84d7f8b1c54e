// Every allocation of the program passes count_allocation(), which the one file that includes this defines in
// its anonymous namespace before. operator new ends in malloc, so C and C++ are both seen, in the program and
// in the libraries that it uses. Not for sanitizers, which replace malloc themselves.
#pragma once

#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);

void* malloc(std::size_t size) {
    count_allocation();
    return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
    count_allocation();
    return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) {
    count_allocation();
    return __libc_realloc(old, size);
}
}
