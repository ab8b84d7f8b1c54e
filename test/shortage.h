// Memory that runs out: for the one file of a program that includes this. Every operator new of the program
// and of the libraries that it uses passes here; those of providers never fail. Not for sanitizers, which
// replace them.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace {

/// Fails the allocation of ours that is the `at`th from here on, by any thread; `lasting`: and all after it.
struct Shortage {
    std::atomic<bool> armed{false};
    std::atomic<long> left{0};
    std::atomic<bool> lasting{false};
    std::atomic<long> failed{0};
    std::array<void*, 24> where{};  ///< of the first that failed
    int depth = 0;
};
Shortage shortage;

/// Providers and drivers have allocations of theirs, some of them in functions of the C++ library that this
/// program has, too.
bool is_ours(void* const* frames, int depth) {
    for (int i = 0; i < depth; ++i) {
        Dl_info info{};
        if (!dladdr(frames[i], &info) || !info.dli_fname) continue;
        for (const char* const theirs : {"libsimefa", "libfabric", "libcuda.so"})
            if (std::strstr(info.dli_fname, theirs)) return false;
    }
    return true;
}

[[gnu::noinline]] bool fails_now() noexcept {
    if (!shortage.armed.load(std::memory_order_relaxed)) return false;
    const long left = shortage.left.fetch_sub(1, std::memory_order_relaxed);
    if (left > 0 || (left < 0 && !shortage.lasting.load(std::memory_order_relaxed))) return false;
    static thread_local bool looking = false;
    if (looking) return false;
    looking = true;
    std::array<void*, 24> frames{};
    const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
    const bool ours = is_ours(frames.data(), depth);
    if (ours && shortage.failed.fetch_add(1) == 0) {
        shortage.where = frames;
        shortage.depth = depth;
    }
    looking = false;
    return ours;
}

}  // namespace

#include "new_hooks.h"

/// What the library's operator delete gives back, which ends in free().
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    const auto step = static_cast<std::size_t>(alignment);
    void* const memory = fails_now() ? nullptr : std::aligned_alloc(step, (size + step - 1) / step * step);
    if (!memory) throw std::bad_alloc();
    return memory;
}

namespace railyard::test {
namespace {

/// A program that dies says where memory ran out.
[[noreturn]] void tell_and_abort() {
    shortage.armed = false;
    std::fprintf(stderr, "terminated; memory had run out here (%ld times):\n", shortage.failed.load());
    backtrace_symbols_fd(shortage.where.data(), shortage.depth, 2);
    std::abort();
}

void arm(long at, bool lasting) {
    shortage.failed = 0;
    shortage.depth = 0;
    shortage.lasting = lasting;
    shortage.left = at;
    shortage.armed = true;
}
void disarm() {
    shortage.armed = false;
}

/// What the test says of a round that went wrong.
std::string place() {
    std::string text = "memory ran out at:";
    char** const names = backtrace_symbols(shortage.where.data(), shortage.depth);
    for (int i = 2; names && i < shortage.depth; ++i)
        text += std::string("\n    ") + names[i];
    std::free(static_cast<void*>(names));
    return text;
}

/// Before the first.
void watch_for_shortages() {
    std::set_terminate(tell_and_abort);
    void* frame = nullptr;
    backtrace(&frame, 1);  // loads what it needs
}

}  // namespace
}  // namespace railyard::test
