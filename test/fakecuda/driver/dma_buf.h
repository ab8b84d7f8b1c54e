// Descriptors of device memory as NICs' drivers take them, cut out of one or more allocations.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory.h"

namespace fakecuda {

/// Whole pages of one backing.
struct DmaBufPiece {
    std::weak_ptr<Backing> backing;
    std::size_t offset = 0, length = 0;
};

enum class Window : unsigned {
    only,  ///< there is no other
    c2c,   ///< by way of the CPU
    bar1,
};

struct DmaBuf {
    std::vector<DmaBufPiece> pieces;
    Window window = Window::only;
    unsigned long long bridge = 0;  ///< DeviceDescription::bridge of its device
};

/// A descriptor is an empty file, by which the memory is known that it stands for: files cannot be cut out of
/// others. Unlike a real one it does not keep the memory alive.
class DmaBufs {
  public:
    /// The descriptor; -1: the system has no more.
    int make(DmaBuf buffer);
    /// The bytes [offset, offset + length) of it, in one mapping; `offset` is a page's. nullptr: it is none
    /// of ours; MAP_FAILED: the memory is gone, or the range is not inside.
    void* map(int fd, std::size_t offset, std::size_t length);
    /// Window::only for what is none of ours.
    Window window(int fd, unsigned long long& bridge);

  private:
    using File = std::pair<dev_t, ino_t>;
    std::mutex mutex_;
    std::map<File, DmaBuf> made_;
};

}  // namespace fakecuda
