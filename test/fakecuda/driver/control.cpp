// The calls of control.h.
#include <algorithm>
#include <chrono>
#include <thread>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

bool drained(const Context& context) {
    std::vector<std::shared_ptr<Stream>> streams{context.default_stream};
    {
        State& all = state();
        const std::lock_guard lock(all.mutex);
        for (const auto& [handle, stream] : all.streams) {
            if (stream->context == context.handle) streams.push_back(stream);
        }
    }
    return std::none_of(streams.begin(), streams.end(),
                        [](const auto& stream) { return stream->query() == CUDA_ERROR_NOT_READY; });
}

}  // namespace

void* fakecuda_alias(unsigned long long address, std::size_t length) {
    std::vector<Memory::Piece> pieces;
    if (length == 0 || !state().memory.pieces(address, length, pieces)) return nullptr;
    // Adjacent mappings of a reservation have memory of their own each, so no single pointer reaches them.
    if (pieces.size() != 1) return nullptr;
    return pieces[0].backing->bytes + pieces[0].offset;
}

void* fakecuda_map_dmabuf(int fd, std::size_t offset, std::size_t length) {
    return state().dma_bufs.map(fd, offset, length);
}

unsigned fakecuda_dmabuf_window(int fd, unsigned long long* bridge) {
    *bridge = 0;
    return static_cast<unsigned>(state().dma_bufs.window(fd, *bridge));
}

unsigned fakecuda_gpu_read(unsigned long long address, void* to, std::size_t length) {
    std::vector<Memory::Piece> pieces;
    if (!state().memory.pieces(address, length, pieces)) return CUDA_ERROR_INVALID_VALUE;
    for (const Memory::Piece& piece : pieces)
        piece.backing->read(piece.offset, static_cast<char*>(to) + (piece.address - address), piece.length);
    return CUDA_SUCCESS;
}

unsigned fakecuda_gpu_write(unsigned long long address, const void* from, std::size_t length) {
    std::vector<Memory::Piece> pieces;
    if (!state().memory.pieces(address, length, pieces)) return CUDA_ERROR_INVALID_VALUE;
    for (const Memory::Piece& piece : pieces)
        piece.backing->write(piece.offset, static_cast<const char*>(from) + (piece.address - address),
                             piece.length);
    return CUDA_SUCCESS;
}

void fakecuda_fail(const char* name, unsigned nth, unsigned error) {
    state().failures.add(name, nth, static_cast<CUresult>(error));
}

void fakecuda_fail_any(unsigned nth, unsigned error, bool lasting) {
    state().failures.add_any(nth, static_cast<CUresult>(error), lasting);
}

const char* fakecuda_any_failed() {
    return state().failures.any_failed();
}

void fakecuda_fail_nothing() {
    state().failures.clear();
}

void fakecuda_set_delay_us(unsigned microseconds) {
    state().delay_us = microseconds;
}

void fakecuda_hold(bool held) {
    state().held = held;
}

void fakecuda_set_c2c(int on) {
    state().c2c = on != 0;
}

void fakecuda_set_adjoining(int on) {
    state().adjoining = on != 0;
}

unsigned fakecuda_load_lazily(unsigned limit_ms) {
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    ContextLocks& locks = state().context_locks;
    locks.take(context.handle);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
    bool over = drained(context);
    while (!over && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        over = drained(context);
    }
    locks.release(context.handle);
    return over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

void fakecuda_get_statistics(fakecuda_statistics* out) {
    State& all = state();
    *out = {};
    const std::lock_guard lock(all.mutex);
    out->contexts = all.contexts.size();
    for (const unsigned count : all.primary_counts)
        out->primary_retains += count;
    out->streams = all.streams.size();
    out->prior_streams = static_cast<std::size_t>(std::count_if(
        all.streams.begin(), all.streams.end(), [](const auto& entry) { return entry.second->prior; }));
    reap_streams();
    out->draining_streams = all.closing.size();
    out->events = all.events.size();
    out->device_allocations = all.memory.count({Kind::device, Kind::pool, Kind::managed, Kind::vmm});
    out->imports = all.memory.count({Kind::imported});
    out->host_allocations = all.memory.count({Kind::host, Kind::registered});
    out->modules = all.modules.size();
    out->flushes = all.flushes;
    out->launches = all.launches;
    out->calls = all.calls;
    out->held_up = all.context_locks.held_up();
}
