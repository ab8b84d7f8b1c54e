#include "work.h"

#include <dlfcn.h>

#include <cstdio>
#include <thread>
#include <type_traits>

#include "cuda/driver.h"
#include "failure.h"
#include "kernels.h"

namespace railyard::gpu {

namespace {

constexpr auto longest_wait = std::chrono::seconds(30);

MoreDriver look() {
    MoreDriver found;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return found;
    const auto find = [library](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(found.module_load_data, "cuModuleLoadData");
    find(found.module_unload, "cuModuleUnload");
    find(found.module_get_function, "cuModuleGetFunction");
    find(found.launch_kernel, "cuLaunchKernel");
    find(found.mem_alloc_managed, "cuMemAllocManaged");
    find(found.stream_begin_capture, "cuStreamBeginCapture_v2");
    find(found.stream_end_capture, "cuStreamEndCapture");
    find(found.graph_destroy, "cuGraphDestroy");
    find(found.mem_host_register, "cuMemHostRegister_v2");
    find(found.mem_host_unregister, "cuMemHostUnregister");
    find(found.set_adjoining, "fakecuda_set_adjoining");
    found.fake = dlsym(library, "fakecuda_alias") != nullptr;
    return found;
}

/// Of a host function; the pointer is the time itself.
void sleep_for(void* microseconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

}  // namespace

const MoreDriver& more_driver() {
    static const MoreDriver found = look();
    return found;
}

Work::Work(bench::Gpu& gpu) : gpu_(gpu) {
    const MoreDriver& more = more_driver();
    if (more.fake) return;
    if (!more.module_load_data || !more.module_unload || !more.module_get_function || !more.launch_kernel)
        throw bench::Failure("this driver launches no kernels: cuModuleLoadData and its like are missing");
    const cuda::ContextGuard guard(*gpu.context());
    guard.require();
    gpu.require(more.module_load_data(&module_, kernels_ptx), "cuModuleLoadData");
    spin_ = find("railyard_spin");
    copy_ = find("railyard_copy");
}

Work::~Work() {
    if (module_ == nullptr) return;
    const cuda::ContextGuard guard(*gpu_.context());
    more_driver().module_unload(module_);
}

CUfunc_st* Work::find(const char* name) const {
    CUfunc_st* kernel = nullptr;
    gpu_.require(more_driver().module_get_function(&kernel, module_, name), name);
    return kernel;
}

void Work::launch(CUfunc_st* kernel, unsigned blocks, unsigned threads, void** arguments, CUstream stream) {
    gpu_.require(
        more_driver().launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel");
}

void Work::spin(const bench::GpuStream& stream, std::chrono::microseconds time) {
    const cuda::ContextGuard guard(*gpu_.context());
    if (has_kernels()) {
        auto nanoseconds = static_cast<std::uint64_t>(time.count()) * 1000;
        void* arguments[] = {&nanoseconds};
        return launch(spin_, 1, 1, arguments, stream.handle());
    }
    void* const microseconds = reinterpret_cast<void*>(static_cast<std::uintptr_t>(time.count()));
    gpu_.require(gpu_.driver().launch_host_func(stream.handle(), sleep_for, microseconds),
                 "cuLaunchHostFunc");
}

void Work::copy(const bench::GpuStream& stream, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    const cuda::ContextGuard guard(*gpu_.context());
    if (has_kernels()) {
        void* arguments[] = {&to, &from, &bytes};
        return launch(copy_, 64, 256, arguments, stream.handle());
    }
    gpu_.require(gpu_.driver().memcpy_async(to, from, bytes, stream.handle()), "cuMemcpyAsync");
}

void Work::finish(const bench::GpuStream& stream) {
    const cuda::ContextGuard guard(*gpu_.context());
    const auto limit = std::chrono::steady_clock::now() + longest_wait;
    CUresult result = CUDA_SUCCESS;
    while ((result = gpu_.driver().stream_query(stream.handle())) == CUDA_ERROR_NOT_READY) {
        if (std::chrono::steady_clock::now() > limit)
            throw bench::Failure("a stream hangs: its work does not end");
        std::this_thread::yield();
    }
    gpu_.require(result, "the work of a stream");
}

OwnStream::~OwnStream() {
    try {
        work_.finish(*this);
    } catch (const bench::Failure& failure) {
        std::fprintf(stderr, "gpu_suite: at the end of a case: %s\n", failure.what());
    }
}

Words::Words(bench::Gpu& gpu, unsigned count)
    : gpu_(gpu), memory_(gpu.context(), count * sizeof(std::uint64_t)) {
    if (!gpu.driver().stream_write_value64 || !gpu.driver().stream_wait_value64)
        throw bench::Failure("this driver's streams write no values: it is older than CUDA 11.7");
}

std::uint64_t Words::get(unsigned index) const noexcept {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(memory_.data()) + index, __ATOMIC_ACQUIRE);
}

void Words::set(unsigned index, std::uint64_t value) noexcept {
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(memory_.data()) + index, value, __ATOMIC_RELEASE);
}

void Words::set_later(const bench::GpuStream& stream, unsigned index, std::uint64_t value) {
    const cuda::ContextGuard guard(*gpu_.context());
    gpu_.require(
        gpu_.driver().stream_write_value64(stream.handle(), memory_.device_address() + index * 8, value, 0),
        "cuStreamWriteValue64");
}

void Words::hold(const bench::GpuStream& stream, unsigned index, std::uint64_t value) {
    const cuda::ContextGuard guard(*gpu_.context());
    gpu_.require(gpu_.driver().stream_wait_value64(stream.handle(), memory_.device_address() + index * 8,
                                                   value, CU_STREAM_WAIT_VALUE_GEQ),
                 "cuStreamWaitValue64");
}

void Gate::hold(const bench::GpuStream& stream) {
    held_ = &stream;
    words_.hold(stream, 0, opened_ + 1);
}

Gate::~Gate() {
    open();
    try {
        if (held_ != nullptr) work_.finish(*held_);
    } catch (const bench::Failure&) {
        // the case that it happened to says so
    }
}

Pinned::Pinned(bench::Gpu& gpu, void* memory, std::size_t length) : gpu_(gpu), memory_(memory) {
    const cuda::ContextGuard guard(*gpu.context());
    gpu.require(more_driver().mem_host_register(memory, length, 1 /* portable */), "cuMemHostRegister");
}

Pinned::~Pinned() {
    const cuda::ContextGuard guard(*gpu_.context());
    more_driver().mem_host_unregister(memory_);
}

}  // namespace railyard::gpu
