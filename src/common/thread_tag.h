// Which thread this is, in one instruction.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace railyard {

/// Another one for each thread that runs; that of one that has ended may come again.
using ThreadTag = std::uintptr_t;
inline constexpr ThreadTag no_thread = 0;

inline ThreadTag this_thread_tag() noexcept {
#if defined(__has_builtin) && __has_builtin(__builtin_thread_pointer)
    return reinterpret_cast<ThreadTag>(__builtin_thread_pointer());
#else
    return static_cast<ThreadTag>(pthread_self());
#endif
}

/// One of 16, the same for a thread every time. Tags are far apart, and often at the same distance.
inline constexpr std::size_t thread_slots = 16;
inline std::size_t slot_of(ThreadTag thread) noexcept {
    return static_cast<std::size_t>((std::uint64_t{thread} * 0x9e3779b97f4a7c15U) >> 60);
}

/// What no two threads should write to at once, and nothing else lie beside.
inline constexpr std::size_t cache_line = 64;

}  // namespace railyard
