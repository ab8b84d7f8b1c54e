// Everything the fake driver knows of its process, in one place that is never destroyed.
#pragma once

#include <unistd.h>

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "context_lock.h"
#include "dma_buf.h"
#include "failures.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

namespace fakecuda {

struct Context {
    CUcontext handle = nullptr;
    int device = 0;
    bool primary = false;
    std::shared_ptr<Stream> default_stream;
};

struct Handle {  ///< physical memory of cuMemCreate
    std::shared_ptr<Backing> backing;
    std::size_t length = 0;
    int device = 0;
    unsigned references = 1;  ///< of the program
    unsigned mappings = 0;
    bool gpu_direct = false;
};

/// An allocation of another process.
struct Import {
    CUdeviceptr address = 0;
    unsigned opens = 0;
};

/// Where the addresses lie that are handed out as handles.
std::uintptr_t handle_space();

struct State {
    const pid_t process = getpid();  ///< which its threads are in; a forked child has none of them
    std::atomic<bool> initialised{false};
    Settings settings;  ///< written by cuInit alone, before `initialised`
    Failures failures;
    ContextLocks context_locks;
    Memory memory;
    DmaBufs dma_bufs;
    std::atomic<unsigned> delay_us{0};
    std::atomic<bool> held{false};
    std::atomic<bool> c2c{false};
    std::atomic<bool> adjoining{false};
    std::atomic<std::size_t> flushes{0}, launches{0}, calls{0};
    std::atomic<std::uint64_t> next_handle{1}, next_buffer{1};

    std::mutex mutex;  ///< guards all below; taken before that of a stream or of the memory, never after
    std::map<CUcontext, Context> contexts;
    std::vector<CUcontext> primary;        ///< by device; null: not active
    std::vector<unsigned> primary_counts;  ///< retains, by device
    std::map<CUstream, std::shared_ptr<Stream>> streams;
    std::vector<std::shared_ptr<Stream>> closing;  ///< destroyed, not joined yet
    std::map<CUevent, std::shared_ptr<Event>> events;
    std::map<CUgraph, std::uint64_t> graphs;
    std::set<CUmodule> modules;
    std::map<CUmemGenericAllocationHandle, Handle> handles;
    std::map<CUdeviceptr, std::size_t> reservations;
    std::map<std::pair<CUcontext, std::string>, Import> imports;  ///< by handle
    CUdeviceptr adjoining_next = 0, adjoining_end = 0;            ///< addresses for allocations that adjoin

    [[nodiscard]] int device_count() const { return static_cast<int>(settings.devices.size()); }
    [[nodiscard]] bool is_device(int device) const { return device >= 0 && device < device_count(); }

    /// Never given twice, so a handle that was destroyed is told from every living one. Like the driver's
    /// they are addresses of mapped memory, which nobody can read here.
    template <class T>
    T make_handle() {
        return reinterpret_cast<T>(handle_space() + 64 * next_handle++);
    }
};

State& state();

/// The calling thread's stack of contexts; the last is current.
std::vector<CUcontext>& context_stack();

/// The current context; false: there is none, or it was destroyed.
bool current_context(Context& out);

/// A stream by its handle; null, 1 and 2 mean the current context's default stream. Demands a current
/// context, as a program that forgot it works with some calls of some drivers only.
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out);

/// This thread's, which CUDA calls its stream capture interaction mode.
CUstreamCaptureMode& capture_mode();
/// What a call that captures do not go with answers first: while any thread captures in global mode, it fails
/// and spoils the capture, unless this thread's mode is relaxed.
CUresult unsafe_while_capturing();

/// Joins the threads of streams that are closed and drained; the caller holds the mutex.
void reap_streams();
/// At the end of the process: ends all streams, whatever is on them.
void end_streams();

/// The caller holds the mutex, here and below.
CUresult make_context(int device, bool primary, CUcontext& out);
/// Streams, events and memory of the context go with it.
void destroy_context(CUcontext context);

}  // namespace fakecuda
