// What tests and simulated NICs ask of the fake driver beside the driver API. All names are exported by the
// fake libcuda.so.1 and found with dlsym; load_control() below does that. Any thread.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

extern "C" {

/// Where a NIC reaches the bytes of [address, address + length): nullptr where that is not device memory
/// inside one allocation, or, of virtual memory, inside one mapping. Valid until the memory is freed or
/// unmapped.
void* fakecuda_alias(unsigned long long address, std::size_t length);

/// Maps [offset, offset + length) of what cuMemGetHandleForAddressRange has given; `offset` is a page's. For
/// munmap. nullptr: the descriptor is none of the driver's; MAP_FAILED: the range is not inside it, or the
/// memory was freed before.
void* fakecuda_map_dmabuf(int fd, std::size_t offset, std::size_t length);

/// Which window of the GPU such a descriptor is of: 0: there is one only, or the descriptor is none of the
/// driver's; 1: by way of the CPU; 2: BAR1. `bridge`: where a NIC has to be to reach BAR1, and must not be to
/// go by way of the CPU: below that PCI bridge, the topmost one above the GPU, as 1 << 63 | domain << 24 |
/// bus << 16 | device << 8 | function; 0: there is none.
unsigned fakecuda_dmabuf_window(int fd, unsigned long long* bridge);

/// The GPU's own look at device memory, as a kernel has it: in the late-visible model without what NICs wrote
/// since the last flush. 0, or CUDA_ERROR_INVALID_VALUE for a range that is not device memory. Does not wait
/// for streams.
unsigned fakecuda_gpu_read(unsigned long long address, void* to, std::size_t length);
unsigned fakecuda_gpu_write(unsigned long long address, const void* from, std::size_t length);

/// The nth next call of the driver function `name` (without _v2; 1: the next one; 0: every one from now on)
/// returns `error` and does nothing. `error` 0 takes it back. The name "execute" stands for an operation on a
/// stream: it is left out, and the stream answers `error` from then on and leaves out all that follows, as
/// after a fault on the GPU.
void fakecuda_fail(const char* name, unsigned nth, unsigned error);
/// The nth next call of any function (1: the next one) returns `error` and does nothing; `lasting`: and so do
/// all after it. Not counted and never failed: calls that give something back, cuCtxPopCurrent among them.
/// `nth` 0 takes it back.
void fakecuda_fail_any(unsigned nth, unsigned error, bool lasting);
/// The function that the last fakecuda_fail_any has failed first; nullptr: none so far.
const char* fakecuda_any_failed();
/// Takes all of them back.
void fakecuda_fail_nothing();

/// Longest random pause before each operation on a stream, from now on.
void fakecuda_set_delay_us(unsigned microseconds);
/// While it is held, no operation on a stream begins; what has begun goes on.
void fakecuda_hold(bool held);

/// From now on device memory has two windows (1), or one (0): FAKECUDA_C2C.
void fakecuda_set_c2c(int on);

/// From now on cuMemAlloc places each allocation right behind the one before, as the driver often does (1),
/// or anywhere (0). Their lengths count as rounded up to 256 bytes. Without effect without FAKECUDA_GUARD.
void fakecuda_set_adjoining(int on);

/// What a program's first launch of a kernel does where modules are loaded lazily: takes the lock of the
/// calling thread's current context, waits until all of its streams have drained, and gives the lock back.
/// Meanwhile calls of other threads that have this context current wait. 0, or CUDA_ERROR_NOT_READY: the
/// streams have not drained within `limit_ms`, and a driver would wait on.
unsigned fakecuda_load_lazily(unsigned limit_ms);

struct fakecuda_statistics {
    std::size_t contexts;          ///< created ones, and primary ones that are retained
    std::size_t primary_retains;   ///< not released yet, over all devices
    std::size_t streams;           ///< created and not destroyed
    std::size_t prior_streams;     ///< of these, how many have the greatest priority
    std::size_t draining_streams;  ///< destroyed with work still on them
    std::size_t events;
    std::size_t
        device_allocations;  ///< of cuMemAlloc, cuMemAllocAsync, cuMemAllocManaged, and mapped VMM ranges
    std::size_t imports;     ///< of other processes' memory, by cuIpcOpenMemHandle
    std::size_t host_allocations;  ///< of cuMemHostAlloc, and cuMemHostRegister's ranges
    std::size_t flushes;           ///< calls of cuFlushGPUDirectRDMAWrites and flushes by stream operations
    std::size_t modules;           ///< loaded and not unloaded
    std::size_t launches;          ///< of kernels
    std::size_t calls;             ///< driver calls since the start
    std::size_t held_up;           ///< of these, how many have waited for a context's lock
};
void fakecuda_get_statistics(fakecuda_statistics* out);

}  // extern "C"

namespace fakecuda {

/// The functions above, of the libcuda.so.1 that is loaded or that LD_LIBRARY_PATH leads to; all null when
/// that is not the fake one.
struct Control {
    decltype(&fakecuda_alias) alias = nullptr;
    decltype(&fakecuda_map_dmabuf) map_dmabuf = nullptr;
    decltype(&fakecuda_dmabuf_window) dmabuf_window = nullptr;
    decltype(&fakecuda_gpu_read) gpu_read = nullptr;
    decltype(&fakecuda_gpu_write) gpu_write = nullptr;
    decltype(&fakecuda_fail) fail = nullptr;
    decltype(&fakecuda_fail_any) fail_any = nullptr;
    decltype(&fakecuda_any_failed) any_failed = nullptr;
    decltype(&fakecuda_fail_nothing) fail_nothing = nullptr;
    decltype(&fakecuda_set_delay_us) set_delay_us = nullptr;
    decltype(&fakecuda_hold) hold = nullptr;
    decltype(&fakecuda_set_c2c) set_c2c = nullptr;
    decltype(&fakecuda_set_adjoining) set_adjoining = nullptr;
    decltype(&fakecuda_load_lazily) load_lazily = nullptr;
    decltype(&fakecuda_get_statistics) get_statistics = nullptr;
    explicit operator bool() const { return alias != nullptr; }

    [[nodiscard]] fakecuda_statistics statistics() const {
        fakecuda_statistics out{};
        get_statistics(&out);
        return out;
    }
};

inline Control load_control() {
    Control control;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return control;
    auto find = [library](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(control.alias, "fakecuda_alias");
    if (!control.alias) return control;
    find(control.map_dmabuf, "fakecuda_map_dmabuf");
    find(control.dmabuf_window, "fakecuda_dmabuf_window");
    find(control.gpu_read, "fakecuda_gpu_read");
    find(control.gpu_write, "fakecuda_gpu_write");
    find(control.fail, "fakecuda_fail");
    find(control.fail_any, "fakecuda_fail_any");
    find(control.any_failed, "fakecuda_any_failed");
    find(control.fail_nothing, "fakecuda_fail_nothing");
    find(control.set_delay_us, "fakecuda_set_delay_us");
    find(control.hold, "fakecuda_hold");
    find(control.set_c2c, "fakecuda_set_c2c");
    find(control.set_adjoining, "fakecuda_set_adjoining");
    find(control.load_lazily, "fakecuda_load_lazily");
    find(control.get_statistics, "fakecuda_get_statistics");
    return control;
}

/// Loaded once.
inline const Control& fake() {
    static const Control control = load_control();
    return control;
}

}  // namespace fakecuda
