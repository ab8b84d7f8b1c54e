// Values that a stream writes and waits for.
#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

constexpr unsigned flush_flag = CU_STREAM_WAIT_VALUE_FLUSH;

bool satisfied(std::uint64_t value, std::uint64_t wanted, unsigned condition, unsigned bytes) {
    switch (condition) {
        case CU_STREAM_WAIT_VALUE_GEQ:  // the difference as a signed number of that width: counters may wrap
            return bytes == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value - wanted)) >= 0
                              : static_cast<std::int64_t>(value - wanted) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
            return value == wanted;
        case CU_STREAM_WAIT_VALUE_AND:
            return (value & wanted) != 0;
        default:
            return ~(value | wanted) != 0;
    }
}

void flush_by_stream(int device) {
    ++state().flushes;
    state().memory.flush(device);
}

bool known(CUdeviceptr address) {
    Range range;
    return state().memory.find(address, range);
}

CUresult write_value(CUstream handle, CUdeviceptr address, std::uint64_t value, unsigned flags,
                     unsigned bytes) {
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    if (address % bytes != 0 || !known(address) || flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    stream->enqueue([=] { return state().memory.store(address, value, bytes); });
    return CUDA_SUCCESS;
}

CUresult wait_value(CUstream handle, CUdeviceptr address, std::uint64_t value, unsigned flags,
                    unsigned bytes) {
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    const unsigned condition = flags & ~flush_flag;
    const bool flush = (flags & flush_flag) != 0;
    if (address % bytes != 0 || !known(address) || condition > CU_STREAM_WAIT_VALUE_NOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (flush && !(state().settings.flush_options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS))
        return CUDA_ERROR_NOT_SUPPORTED;
    const int device = stream->device;
    stream->enqueue([=] {
        std::uint64_t now = 0;
        FAKECUDA_TRY(state().memory.load(address, now, bytes));
        if (!satisfied(now, value, condition, bytes)) return CUDA_ERROR_NOT_READY;
        if (flush) flush_by_stream(device);
        return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
}

CUresult one_of_batch(CUstream stream, const CUstreamBatchMemOpParams& operation) {
    const auto& wait = operation.waitValue;
    const auto& write = operation.writeValue;
    switch (operation.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            return wait_value(stream, wait.address, wait.value, wait.flags, 4);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            return wait_value(stream, wait.address, wait.value64, wait.flags, 8);
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            return write_value(stream, write.address, write.value, write.flags, 4);
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            return write_value(stream, write.address, write.value64, write.flags, 8);
        case CU_STREAM_MEM_OP_BARRIER:
            return CUDA_SUCCESS;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: {
            std::shared_ptr<Stream> found;
            FAKECUDA_TRY(find_stream(stream, found));
            if (!(state().settings.flush_options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS))
                return CUDA_ERROR_NOT_SUPPORTED;
            const int device = found->device;
            found->enqueue([device] {
                flush_by_stream(device);
                return CUDA_SUCCESS;
            });
            return CUDA_SUCCESS;
        }
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    FAKECUDA_ENTER();
    return write_value(stream, address, value, flags, 4);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    FAKECUDA_ENTER();
    return write_value(stream, address, value, flags, 8);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    FAKECUDA_ENTER();
    return wait_value(stream, address, value, flags, 4);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    FAKECUDA_ENTER();
    return wait_value(stream, address, value, flags, 8);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                            unsigned flags) {
    FAKECUDA_ENTER();
    if (flags != 0 || count > 256) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
        FAKECUDA_TRY(one_of_batch(stream, operations[i]));
    return CUDA_SUCCESS;
}
