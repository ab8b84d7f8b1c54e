// Owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace railyard {

/// Closed at the end of the scope, and with it unlocked; one below 0 is none.
class Descriptor {
  public:
    explicit Descriptor(int fd) noexcept : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

}  // namespace railyard
