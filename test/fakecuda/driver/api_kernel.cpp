// The one kernel that is known here, by its name: the engine's, which copies pieces. Its work is done by the
// stream's thread, and what a thread of the GPU could not touch is a fault that ends the stream.
#include <cstring>

#include "api.h"
#include "cuda/copy_batch.h"
#include "state.h"

using namespace fakecuda;

namespace {

constexpr char known_kernel[] = "railyard_copy_pieces";

/// Memory of the stream's context, or that is mapped for its GPU, or pinned.
bool touchable(CUdeviceptr address, std::size_t length, CUcontext context, int device) {
    Range range;
    if (!state().memory.find(address, range)) return false;
    if (!range.on_device()) return length <= range.length - (address - range.start);
    if (range.kind == Kind::device && range.context != context) return false;
    std::vector<Memory::Piece> pieces;
    return (range.device == device || range.kind == Kind::imported) &&
           state().memory.pieces(address, length, pieces);
}

CUresult copy_pieces(const railyard::cuda::CopyBatch& batch, unsigned count, CUcontext context, int device) {
    for (unsigned i = 0; i < count; ++i) {
        if (!touchable(batch.to[i], batch.length[i], context, device) ||
            !touchable(batch.from[i], batch.length[i], context, device))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    // In any order; backwards shows who relies on one.
    for (unsigned i = count; i-- > 0;)
        FAKECUDA_TRY(state().memory.copy(batch.to[i], batch.from[i], batch.length[i]));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    FAKECUDA_ENTER();
    FAKECUDA_TRY(unsafe_while_capturing());
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
    if (!std::strstr(static_cast<const char*>(image), known_kernel)) return CUDA_ERROR_INVALID_PTX;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    *module = all.make_handle<CUmodule>();
    all.modules.insert(*module);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    return all.modules.erase(module) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// A function is its module.
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    if (!all.modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
    if (std::strcmp(name, known_kernel) != 0) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(module);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream handle, void** parameters, void** extra) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> stream;
    FAKECUDA_TRY(find_stream(handle, stream));
    State& all = state();
    {
        const std::lock_guard lock(all.mutex);
        if (!all.modules.contains(reinterpret_cast<CUmodule>(kernel))) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (grid_x == 0 || grid_y == 0 || grid_y > railyard::cuda::pieces_per_launch || grid_z != 1 ||
        block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1 || shared_bytes != 0 || !parameters ||
        extra)
        return CUDA_ERROR_INVALID_VALUE;
    auto batch = std::make_shared<railyard::cuda::CopyBatch>();
    std::memcpy(batch.get(), parameters[0], sizeof(*batch));
    ++all.launches;
    stream->enqueue([batch, grid_y, context = stream->context, device = stream->device] {
        return copy_pieces(*batch, grid_y, context, device);
    });
    return CUDA_SUCCESS;
}
