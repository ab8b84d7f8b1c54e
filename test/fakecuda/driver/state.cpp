#include "state.h"

#include <sys/mman.h>

#include "api.h"

namespace fakecuda {

State& state() {
    static auto* const instance = new State;
    return *instance;
}

std::uintptr_t handle_space() {
    constexpr std::size_t bytes = std::size_t{1} << 30;  // 16 million handles
    static void* const space =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return space == MAP_FAILED ? 0x7000 : reinterpret_cast<std::uintptr_t>(space);
}

CUresult enter_any_time(const char* function) {
    ++state().calls;
    const CUresult result = state().failures.take_any(function);
    return result == CUDA_SUCCESS ? state().failures.take(function) : result;
}

CUresult enter(const char* function) {
    if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (!context_stack().empty()) state().context_locks.pass(context_stack().back(), function);
    return enter_any_time(function);
}

std::vector<CUcontext>& context_stack() {
    thread_local std::vector<CUcontext> stack;
    return stack;
}

bool current_context(Context& out) {
    const auto& stack = context_stack();
    if (stack.empty() || !stack.back()) return false;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.contexts.find(stack.back());
    if (at == all.contexts.end()) return false;
    out = at->second;
    return true;
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out) {
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
        out = context.default_stream;
        return CUDA_SUCCESS;
    }
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.streams.find(handle);
    if (at == all.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    out = at->second;
    return CUDA_SUCCESS;
}

CUstreamCaptureMode& capture_mode() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

CUresult unsafe_while_capturing() {
    if (capture_mode() != CU_STREAM_CAPTURE_MODE_GLOBAL) return CUDA_SUCCESS;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    bool spoilt = false;
    for (auto& [handle, stream] : all.streams)
        spoilt = stream->spoil_global_capture() || spoilt;
    return spoilt ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void reap_streams() {
    if (getpid() != state().process) return;
    auto& closing = state().closing;
    for (auto at = closing.begin(); at != closing.end();) {
        if (!(*at)->finished()) {
            ++at;
            continue;
        }
        (*at)->join();
        at = closing.erase(at);
    }
}

void end_streams() {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    for (auto& [handle, context] : all.contexts)
        all.closing.push_back(std::move(context.default_stream));
    for (auto& [handle, stream] : all.streams)
        all.closing.push_back(std::move(stream));
    all.contexts.clear();
    all.streams.clear();
    for (const auto& stream : all.closing)
        stream->abort();
    for (const auto& stream : all.closing)
        stream->join();
    all.closing.clear();
}

CUresult make_context(int device, bool primary, CUcontext& out) {
    State& all = state();
    out = all.make_handle<CUcontext>();
    Context context{out, device, primary,
                    std::make_shared<Stream>(out, device, 0, all.settings.seed + all.next_handle)};
    context.default_stream->start();
    all.contexts[out] = std::move(context);
    return CUDA_SUCCESS;
}

void destroy_context(CUcontext handle) {
    State& all = state();
    const auto at = all.contexts.find(handle);
    if (at == all.contexts.end()) return;
    at->second.default_stream->abort();
    all.closing.push_back(std::move(at->second.default_stream));
    all.contexts.erase(at);
    for (auto stream = all.streams.begin(); stream != all.streams.end();) {
        if (stream->second->context != handle) {
            ++stream;
            continue;
        }
        stream->second->abort();
        all.closing.push_back(std::move(stream->second));
        stream = all.streams.erase(stream);
    }
    reap_streams();
    for (auto event = all.events.begin(); event != all.events.end();)
        event = event->second->context == handle ? all.events.erase(event) : std::next(event);
    all.memory.remove_of(handle);
}

}  // namespace fakecuda
