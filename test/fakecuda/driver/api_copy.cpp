// Copies and fills. Asynchronous ones keep their order in the stream; all others wait for the default stream
// and themselves.
#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

CUdeviceptr host(const void* pointer) {
    return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Which side must be memory that the driver knows.
enum class Known { none, target, source, both };

bool known(CUdeviceptr address, std::size_t bytes) {
    std::vector<Memory::Piece> pieces;
    return state().memory.pieces(address, bytes, pieces);
}

/// Reserved, but not mapped from end to end: a driver knows that, and refuses.
bool unmapped(CUdeviceptr address, std::size_t bytes) {
    {
        State& all = state();
        const std::lock_guard lock(all.mutex);
        auto reserved = all.reservations.upper_bound(address);
        if (reserved == all.reservations.begin()) return false;
        --reserved;
        if (address - reserved->first >= reserved->second) return false;
    }
    return !known(address, bytes);
}

/// It begins in memory that the driver knows, and goes on beyond: a driver refuses that, also where the next
/// allocation adjoins.
bool leaves_allocation(CUdeviceptr address, std::size_t bytes) {
    Range range;
    if (!state().memory.find(address, range)) return false;
    return range.on_device() ? !known(address, bytes) : range.start + range.length - address < bytes;
}

CUresult enqueue_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream, Known must) {
    std::shared_ptr<Stream> found;
    FAKECUDA_TRY(find_stream(stream, found));
    if (bytes == 0) return CUDA_SUCCESS;
    if ((must == Known::target || must == Known::both) && !known(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if ((must == Known::source || must == Known::both) && !known(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (unmapped(to, bytes) || unmapped(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (leaves_allocation(to, bytes) || leaves_allocation(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    found->enqueue([to, from, bytes] { return state().memory.copy(to, from, bytes); });
    return CUDA_SUCCESS;
}

CUresult copy_now(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, Known must) {
    FAKECUDA_TRY(enqueue_copy(to, from, bytes, nullptr, must));
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(nullptr, stream));
    return stream->synchronize();
}

template <class T>
CUresult enqueue_fill(CUdeviceptr to, T value, std::size_t count, CUstream stream) {
    std::shared_ptr<Stream> found;
    FAKECUDA_TRY(find_stream(stream, found));
    if (count == 0) return CUDA_SUCCESS;
    if (!known(to, count * sizeof(T)) || to % sizeof(T) != 0) return CUDA_ERROR_INVALID_VALUE;
    found->enqueue([to, value, count] { return state().memory.fill(to, &value, sizeof(value), count); });
    return CUDA_SUCCESS;
}

template <class T>
CUresult fill_now(CUdeviceptr to, T value, std::size_t count) {
    FAKECUDA_TRY(enqueue_fill(to, value, count, nullptr));
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(nullptr, stream));
    return stream->synchronize();
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    FAKECUDA_ENTER();
    return copy_now(to, from, bytes, Known::none);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
    FAKECUDA_ENTER();
    return copy_now(to, host(from), bytes, Known::target);
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
    FAKECUDA_ENTER();
    return copy_now(host(to), from, bytes, Known::source);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    FAKECUDA_ENTER();
    return copy_now(to, from, bytes, Known::both);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_copy(to, from, bytes, stream, Known::none);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_copy(to, host(from), bytes, stream, Known::target);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_copy(host(to), from, bytes, stream, Known::source);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_copy(to, from, bytes, stream, Known::both);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes,
                           CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_copy(to, from, bytes, stream, Known::both);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
    FAKECUDA_ENTER();
    return fill_now(to, value, count);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, std::size_t count) {
    FAKECUDA_ENTER();
    return fill_now(to, value, count);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_fill(to, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
    FAKECUDA_ENTER();
    return enqueue_fill(to, value, count, stream);
}
