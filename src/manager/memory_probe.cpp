#include "manager/memory_probe.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <optional>
#include <string>

#include "common/mapping.h"
#include "common/shortage.h"
#include "common/status.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace railyard {
namespace {

/// Runs `probe(page address, page size)` on the first and the last page; false as soon as one says so.
template <class Probe>
bool both_ends(std::uint64_t address, std::uint64_t length, Probe probe) {
    if (length == 0) return true;
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    for (std::uint64_t end : {address, address + (length - 1)}) {
        if (!probe(reinterpret_cast<void*>(end / page * page), page)) return false;
    }
    return true;
}

/// The slow and exact answer; true where the kernel does not tell.
bool mapped_writable(std::uint64_t address) {
    const std::optional<Mapping> mapping = mapping_at(getpid(), address);
    if (!mapping) {
        const std::string lacking = shortage();
        if (!lacking.empty())
            throw PassingError(Status::backend, "whether memory may be written to cannot be read" + lacking);
    }
    return !mapping || !mapping->exists || mapping->writable;
}

}  // namespace

bool is_writable(std::uint64_t address, std::uint64_t length) {
    // Populating one page for writing changes nothing but needs the permission, and costs one call. It also
    // fails on device memory and on kernels before 5.14: then the list of mappings decides.
    return both_ends(address, length, [](void* page, std::uint64_t size) {
        return madvise(page, size, MADV_POPULATE_WRITE) == 0 ||
               mapped_writable(reinterpret_cast<std::uint64_t>(page));
    });
}

bool is_mapped(std::uint64_t address, std::uint64_t length) noexcept {
    return both_ends(address, length, [](void* page, std::uint64_t size) {
        unsigned char residency = 0;
        return mincore(page, size, &residency) == 0 || errno != ENOMEM;
    });
}

}  // namespace railyard
