#include "dma_buf.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace fakecuda {

int DmaBufs::make(DmaBuf buffer) {
    std::size_t length = 0;
    for (const DmaBufPiece& piece : buffer.pieces)
        length += piece.length;
    const int fd = memfd_create("fakecuda-dmabuf", MFD_CLOEXEC);
    struct stat file {};
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(length)) != 0 || fstat(fd, &file) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& known) {
        const std::vector<DmaBufPiece>& pieces = known.second.pieces;
        return std::any_of(pieces.begin(), pieces.end(),
                           [](const DmaBufPiece& piece) { return piece.backing.expired(); });
    });
    made_[{file.st_dev, file.st_ino}] = std::move(buffer);
    return fd;
}

void* DmaBufs::map(int fd, std::size_t offset, std::size_t length) {
    struct stat file {};
    if (fstat(fd, &file) != 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = made_.find({file.st_dev, file.st_ino});
    if (found == made_.end()) return nullptr;
    length = round_up(length, page);
    const CUdeviceptr whole = reserve_addresses(length);
    if (!whole) return MAP_FAILED;
    std::size_t done = 0;
    for (const DmaBufPiece& piece : found->second.pieces) {
        if (offset >= piece.length) {
            offset -= piece.length;
            continue;
        }
        const std::shared_ptr<Backing> backing = piece.backing.lock();
        const std::size_t part = std::min(piece.length - offset, length - done);
        if (part == 0 || !backing) break;
        if (mmap(reinterpret_cast<void*>(whole + done), part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 backing->fd, static_cast<off_t>(piece.offset + offset)) == MAP_FAILED)
            break;
        done += part;
        offset = 0;
    }
    if (done == length) return reinterpret_cast<void*>(whole);
    munmap(reinterpret_cast<void*>(whole), length);
    return MAP_FAILED;
}

Window DmaBufs::window(int fd, unsigned long long& bridge) {
    struct stat file {};
    if (fstat(fd, &file) != 0) return Window::only;
    const std::lock_guard lock(mutex_);
    const auto found = made_.find({file.st_dev, file.st_ino});
    if (found == made_.end()) return Window::only;
    bridge = found->second.bridge;
    return found->second.window;
}

}  // namespace fakecuda
