#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace fakecuda {
namespace {

char* pointer(CUdeviceptr address) {
    return reinterpret_cast<char*>(static_cast<std::uintptr_t>(address));
}

bool one_of(Kind kind, std::initializer_list<Kind> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// What a NIC writes meanwhile is not ordered with this copy: that is what the model is about, so
/// ThreadSanitizer does not look at it, and memcpy, which it would see, is not used.
__attribute__((no_sanitize("thread"), no_sanitize("address"))) void copy_words(char* to, const char* from,
                                                                               std::size_t bytes) {
    auto* target = reinterpret_cast<volatile std::uint64_t*>(to);
    const auto* source = reinterpret_cast<const volatile std::uint64_t*>(from);
    for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) {
        const std::uint64_t word = source[i];
        if (target[i] != word) target[i] = word;
    }
}

}  // namespace

std::shared_ptr<Backing> Backing::of(int fd, std::size_t length) {
    std::shared_ptr<Backing> made(new Backing);
    made->length = round_up(length, page);
    made->fd = fd;
    void* bytes =
        mmap(nullptr, made->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->fd, 0);
    if (bytes == MAP_FAILED) return nullptr;
    made->bytes = made->gpu = static_cast<char*>(bytes);
    return made;
}

std::shared_ptr<Backing> Backing::make(std::size_t length, bool late) {
    const int fd = memfd_create("fakecuda", MFD_CLOEXEC);
    if (fd < 0) return nullptr;
    if (ftruncate(fd, static_cast<off_t>(round_up(length, page))) != 0) {
        close(fd);
        return nullptr;
    }
    std::shared_ptr<Backing> made = of(fd, length);
    if (made && late) {
        void* gpu = mmap(nullptr, made->length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (gpu == MAP_FAILED) return nullptr;
        made->gpu = static_cast<char*>(gpu);
    }
    return made;
}

Backing::~Backing() {
    if (gpu && gpu != bytes) munmap(gpu, length);
    if (bytes) munmap(bytes, length);
    if (fd >= 0) close(fd);
}

void Backing::write(std::size_t offset, const void* from, std::size_t count) noexcept {
    if (gpu == bytes) {
        std::memcpy(gpu + offset, from, count);
        return;
    }
    const std::lock_guard lock(flushing_);
    std::memcpy(bytes + offset, from, count);
    std::memcpy(gpu + offset, from, count);
}

void Backing::read(std::size_t offset, void* to, std::size_t count) const noexcept {
    std::memcpy(to, gpu + offset, count);
}

void Backing::flush() noexcept {
    if (gpu == bytes) return;
    const std::lock_guard lock(flushing_);
    copy_words(gpu, bytes, length);
}

CUdeviceptr reserve_addresses(std::size_t length, CUdeviceptr wish) {
    void* made = mmap(pointer(wish), length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made == MAP_FAILED ? 0 : reinterpret_cast<CUdeviceptr>(made);
}

void Memory::add(const Range& range) {
    const std::unique_lock lock(mutex_);
    ranges_[range.start] = range;
}

const Range* Memory::find_locked(CUdeviceptr address) const {
    auto at = ranges_.upper_bound(address);
    if (at == ranges_.begin()) return nullptr;
    --at;
    return address - at->first < at->second.length ? &at->second : nullptr;
}

bool Memory::find(CUdeviceptr address, Range& out) const {
    const std::shared_lock lock(mutex_);
    const Range* range = find_locked(address);
    if (range) out = *range;
    return range != nullptr;
}

void Memory::unmap(const Range& range) {
    if (range.guard_start) munmap(pointer(range.guard_start), range.guard_length);
}

bool Memory::remove(CUdeviceptr address, std::initializer_list<Kind> kinds, Range* out) {
    const std::unique_lock lock(mutex_);
    const auto at = ranges_.find(address);
    if (at == ranges_.end() || !one_of(at->second.kind, kinds)) return false;
    if (out) *out = at->second;
    unmap(at->second);
    ranges_.erase(at);
    return true;
}

void Memory::remove_of(CUcontext context) {
    const std::unique_lock lock(mutex_);
    for (auto at = ranges_.begin(); at != ranges_.end();) {
        if (at->second.context != context || at->second.kind == Kind::vmm) {
            ++at;
            continue;
        }
        unmap(at->second);
        at = ranges_.erase(at);
    }
}

void Memory::update(CUdeviceptr start, const Range& range) {
    const std::unique_lock lock(mutex_);
    if (const auto at = ranges_.find(start); at != ranges_.end()) at->second = range;
}

std::size_t Memory::used(int device) const {
    const std::shared_lock lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [start, range] : ranges_) {
        if (range.on_device() && range.kind != Kind::imported && range.device == device)
            bytes += range.length;
    }
    return bytes;
}

std::size_t Memory::count(std::initializer_list<Kind> kinds) const {
    const std::shared_lock lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        ranges_.begin(), ranges_.end(), [&](const auto& entry) { return one_of(entry.second.kind, kinds); }));
}

void Memory::flush(int device) {
    const std::shared_lock lock(mutex_);
    for (const auto& [start, range] : ranges_) {
        if (range.backing && (device < 0 || range.device == device)) range.backing->flush();
    }
}

bool Memory::pieces(CUdeviceptr address, std::size_t length, std::vector<Piece>& out) const {
    const std::shared_lock lock(mutex_);
    const Range* first = find_locked(address);
    for (const Range* range = first; range; range = find_locked(address)) {
        const bool together = range == first || (range->kind == Kind::vmm && first->kind == Kind::vmm &&
                                                 range->reservation == first->reservation);
        if (!range->on_device() || !together) return false;
        const std::size_t inside = address - range->start;
        const std::size_t part = std::min<std::size_t>(range->length - inside, length);
        out.push_back({range->backing, range->backing_offset + inside, part, address, range->accessible});
        address += part;
        length -= part;
        if (length == 0) return true;
    }
    return false;
}

CUresult Memory::copy(CUdeviceptr to, CUdeviceptr from, std::size_t length) const {
    if (length == 0) return CUDA_SUCCESS;
    Range range;
    std::vector<Piece> targets, sources;
    if (find(to, range) && range.on_device() && !pieces(to, length, targets))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (find(from, range) && range.on_device() && !pieces(from, length, sources))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (const auto& list : {targets, sources}) {
        for (const Piece& piece : list) {
            if (!piece.accessible) return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    if (targets.empty() && sources.empty()) {
        std::memmove(pointer(to), pointer(from), length);
    } else if (targets.empty()) {
        for (const Piece& piece : sources)
            piece.backing->read(piece.offset, pointer(to + (piece.address - from)), piece.length);
    } else if (sources.empty()) {
        for (const Piece& piece : targets)
            piece.backing->write(piece.offset, pointer(from + (piece.address - to)), piece.length);
    } else {
        std::vector<char> between(length);
        for (const Piece& piece : sources)
            piece.backing->read(piece.offset, between.data() + (piece.address - from), piece.length);
        for (const Piece& piece : targets)
            piece.backing->write(piece.offset, between.data() + (piece.address - to), piece.length);
    }
    return CUDA_SUCCESS;
}

CUresult Memory::fill(CUdeviceptr to, const void* pattern, std::size_t pattern_length,
                      std::size_t count) const {
    std::vector<char> bytes(pattern_length * count);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(bytes.data() + i * pattern_length, pattern, pattern_length);
    return copy(to, reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.size());
}

CUresult Memory::store(CUdeviceptr address, std::uint64_t value, unsigned bytes) const {
    Range range;
    if (!find(address, range) || address % bytes != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (range.on_device())
        return copy(address, reinterpret_cast<CUdeviceptr>(&value), bytes);  // little endian
    if (bytes == 4)
        __atomic_store_n(reinterpret_cast<std::uint32_t*>(address), static_cast<std::uint32_t>(value),
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(address), value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult Memory::load(CUdeviceptr address, std::uint64_t& value, unsigned bytes) const {
    Range range;
    if (!find(address, range) || address % bytes != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    value = 0;
    if (range.on_device()) {
        std::vector<Piece> found;
        if (!pieces(address, bytes, found) || found.size() != 1) return CUDA_ERROR_ILLEGAL_ADDRESS;
        char* at = found[0].backing->gpu + found[0].offset;
        value = bytes == 4 ? __atomic_load_n(reinterpret_cast<std::uint32_t*>(at), __ATOMIC_ACQUIRE)
                           : __atomic_load_n(reinterpret_cast<std::uint64_t*>(at), __ATOMIC_ACQUIRE);
        return CUDA_SUCCESS;
    }
    value = bytes == 4 ? __atomic_load_n(reinterpret_cast<std::uint32_t*>(address), __ATOMIC_ACQUIRE)
                       : __atomic_load_n(reinterpret_cast<std::uint64_t*>(address), __ATOMIC_ACQUIRE);
    return CUDA_SUCCESS;
}

}  // namespace fakecuda
