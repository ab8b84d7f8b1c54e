#include "fabric/endpoint_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "common/descriptor.h"
#include "fabric/peer_process.h"

namespace railyard::fabric {
namespace {

constexpr std::size_t page_size = 4096;

/// Of libfabric 1.17 to 2.1. The first byte of an endpoint's memory is its version; later ones have no lock.
constexpr std::uint8_t oldest = 4, newest = 8;
constexpr std::size_t process_at = 4, copies_at = 8;
constexpr std::uint8_t copies_off = 2;  // 0: not decided yet, 1: on
/// Where the size of the whole is: before what some of them have for XPMEM, or behind that. Bytes.
constexpr std::size_t size_at[] = {40, 72};
constexpr std::size_t lock_before_size = 16;

template <class Value>
Value value_at(const void* memory, std::size_t at) noexcept {
    Value value;
    std::memcpy(&value, static_cast<const char*>(memory) + at, sizeof value);
    return value;
}

/// Null where the memory is not what it should be.
int* find_lock(void* memory, int process, std::size_t size) noexcept {
    const auto version = value_at<std::uint8_t>(memory, 0);
    if (version < oldest || version > newest || value_at<int>(memory, process_at) != process) return nullptr;
    for (const std::size_t at : size_at)
        if (value_at<std::size_t>(memory, at) == size)
            return reinterpret_cast<int*>(static_cast<char*>(memory) + at - lock_before_size);
    return nullptr;
}

}  // namespace

EndpointMemory::EndpointMemory(const std::string& address) {
    const int process = process_of(address);
    if (process == 0) return;
    const std::string name(shared_memory_of(address));
    const Descriptor file(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(page_size))
        return;
    void* memory = mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return;
    memory_ = memory;
    lock_ = find_lock(memory, process, static_cast<std::size_t>(status.st_size));
}

EndpointMemory::~EndpointMemory() {
    if (memory_) munmap(memory_, page_size);
}

bool EndpointMemory::copies_forbidden() const noexcept {
    if (!seen()) return false;
    std::uint8_t& word = static_cast<std::uint8_t*>(memory_)[copies_at];
    return std::atomic_ref<std::uint8_t>(word).load(std::memory_order_relaxed) == copies_off;
}

void EndpointMemory::forbid_copies() noexcept {
    std::uint8_t& word = static_cast<std::uint8_t*>(memory_)[copies_at];
    std::atomic_ref<std::uint8_t>(word).store(copies_off, std::memory_order_seq_cst);
}

}  // namespace railyard::fabric
