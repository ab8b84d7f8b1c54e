#include "provider/mover.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace simefa {
namespace {

std::size_t total(const Segment* segments, std::size_t count) noexcept {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i)
        bytes += segments[i].length;
    return bytes;
}

void* pointer(std::uint64_t address) noexcept {
    return reinterpret_cast<void*>(address);
}

/// Walks two lists of segments in step.
Moved copy_within(const Segment* to, std::size_t to_count, const Segment* from,
                  std::size_t from_count) noexcept {
    std::size_t to_done = 0, from_done = 0;
    while (to_count > 0 && from_count > 0) {
        const std::size_t bytes = std::min(to->length - to_done, from->length - from_done);
        if (bytes > 0) std::memcpy(pointer(to->address + to_done), pointer(from->address + from_done), bytes);
        to_done += bytes;
        from_done += bytes;
        if (to_done == to->length) {
            ++to;
            --to_count;
            to_done = 0;
        }
        if (from_count > 0 && from_done == from->length) {
            ++from;
            --from_count;
            from_done = 0;
        }
    }
    return Moved::all;
}

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

struct Vector {
    iovec entries[segment_limit];
    std::size_t count = 0;

    /// The part of the segments from `skip` on, at most `limit` bytes.
    Vector(const Segment* segments, std::size_t number, std::size_t skip, std::size_t limit) noexcept {
        for (std::size_t i = 0; i < number && limit > 0; ++i) {
            if (skip >= segments[i].length) {
                skip -= segments[i].length;
                continue;
            }
            const std::size_t bytes = std::min<std::size_t>(segments[i].length - skip, limit);
            entries[count++] = {pointer(segments[i].address + skip), bytes};
            limit -= bytes;
            skip = 0;
        }
    }
};

Moved copy_across(Call call, ProcessIdentity process, const Segment* remote, std::size_t remote_count,
                  const Segment* local, std::size_t local_count) noexcept {
    constexpr std::size_t longest = std::size_t{1} << 30;  // the kernel moves less than 2 GiB a call
    const std::size_t bytes = std::min(total(remote, remote_count), total(local, local_count));
    std::size_t done = 0;
    while (done < bytes) {
        const std::size_t piece = std::min(bytes - done, longest);
        const Vector here(local, local_count, done, piece), there(remote, remote_count, done, piece);
        const ssize_t moved =
            call(process_id_of(process), here.entries, here.count, there.entries, there.count, 0);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno == EFAULT ? Moved::bad_address : Moved::no_process;
        if (moved == 0) return Moved::bad_address;
        done += static_cast<std::size_t>(moved);
    }
    return Moved::all;
}

}  // namespace

Moved copy_out(ProcessIdentity process, const Segment* to, std::size_t to_count, const Segment* from,
               std::size_t from_count) noexcept {
    if (process == own_process) return copy_within(to, to_count, from, from_count);
    return copy_across(process_vm_writev, process, to, to_count, from, from_count);
}

Moved copy_in(ProcessIdentity process, const Segment* from, std::size_t from_count, const Segment* to,
              std::size_t to_count) noexcept {
    if (process == own_process) return copy_within(to, to_count, from, from_count);
    return copy_across(process_vm_readv, process, from, from_count, to, to_count);
}

}  // namespace simefa
