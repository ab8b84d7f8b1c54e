// Streams, events, capture.
#include <utility>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

/// As devices of today have it: the greatest is the least number.
constexpr int least_priority = 0, greatest_priority = -5;

CUresult create(CUstream* handle, unsigned flags, int priority) {
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    *handle = all.make_handle<CUstream>();
    auto stream =
        std::make_shared<Stream>(context.handle, context.device, flags, all.settings.seed + all.next_handle);
    stream->prior = priority <= greatest_priority;
    stream->start();
    all.streams[*handle] = std::move(stream);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
    FAKECUDA_ENTER();
    return create(handle, flags, least_priority);
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
    FAKECUDA_ENTER();
    return create(handle, flags, priority);
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (least) *least = least_priority;
    if (greatest) *greatest = greatest_priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.streams.find(handle);
    if (at == all.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    at->second->close();  // what is on it is still done
    all.closing.push_back(std::move(at->second));
    all.streams.erase(at);
    reap_streams();
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    return stream->query();
}

CUresult cuStreamSynchronize(CUstream handle) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    return stream->synchronize();
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    *context = stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    *device = stream->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    stream->enqueue([function, user] {
        function(user);
        return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    *status = stream->capturing();
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, CUgraphNode_st* const** dependencies,
                                   std::size_t* dependency_count) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    *status = stream->capturing();
    if (id) *id = stream->capture_id();
    if (graph) *graph = nullptr;
    if (dependencies) *dependencies = nullptr;
    if (dependency_count) *dependency_count = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    if (reinterpret_cast<std::uintptr_t>(handle) < 2) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return stream->begin_capture(mode);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    FAKECUDA_ENTER();
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, capture_mode());
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    FAKECUDA_TRY(stream->end_capture());
    State& all = state();
    const std::lock_guard lock(all.mutex);
    *graph = all.make_handle<CUgraph>();
    all.graphs[*graph] = stream->capture_id();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    return all.graphs.erase(graph) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {

CUresult find_event(CUevent handle, std::shared_ptr<Event>& out) {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.events.find(handle);
    if (at == all.events.end()) return CUDA_ERROR_INVALID_HANDLE;
    out = at->second;
    return CUDA_SUCCESS;
}

std::shared_ptr<Marker> last_of(Event& event) {
    const std::lock_guard lock(event.mutex);
    return event.last;
}

}  // namespace

CUresult cuEventCreate(CUevent* handle, unsigned) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto event = std::make_shared<Event>();
    event->context = context.handle;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    *handle = all.make_handle<CUevent>();
    all.events[*handle] = std::move(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    return all.events.erase(handle) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Event> event;
    FAKECUDA_TRY(find_stream(stream_handle, stream));
    FAKECUDA_TRY(find_event(handle, event));
    if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
    auto marker = std::make_shared<Marker>();
    {
        const std::lock_guard lock(event->mutex);
        event->last = marker;
        event->stream = stream;
    }
    stream->enqueue_always([marker] {
        marker->reach();
        return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
    FAKECUDA_ENTER();
    FAKECUDA_TRY(unsafe_while_capturing());
    std::shared_ptr<Event> event;
    FAKECUDA_TRY(find_event(handle, event));
    const auto marker = last_of(*event);
    if (marker && !marker->reached()) return CUDA_ERROR_NOT_READY;
    return event->error();
}

CUresult cuEventSynchronize(CUevent handle) {
    FAKECUDA_ENTER();
    std::shared_ptr<Event> event;
    FAKECUDA_TRY(find_event(handle, event));
    if (const auto marker = last_of(*event)) marker->wait();
    return event->error();
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Event> event;
    FAKECUDA_TRY(find_stream(stream_handle, stream));
    FAKECUDA_TRY(find_event(handle, event));
    if (const auto marker = last_of(*event))
        stream->enqueue([marker] { return marker->reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; });
    return CUDA_SUCCESS;
}
