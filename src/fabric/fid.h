// Ownership of one libfabric object, and the check of its calls.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"

namespace railyard::fabric {

/// Closes its fid on destruction. Objects that a fid depends on must outlive it (member order).
template <class T>
class Fid {
  public:
    Fid() = default;
    explicit Fid(T* fid) noexcept : fid_(fid) {}
    Fid(Fid&& other) noexcept : fid_(std::exchange(other.fid_, nullptr)) {}
    Fid& operator=(Fid&& other) noexcept {
        if (this != &other) {
            reset();
            fid_ = std::exchange(other.fid_, nullptr);
        }
        return *this;
    }
    ~Fid() { reset(); }

    [[nodiscard]] T* get() const noexcept { return fid_; }
    T* operator->() const noexcept { return fid_; }
    explicit operator bool() const noexcept { return fid_ != nullptr; }
    void reset() noexcept {
        if (fid_) fi_close(&std::exchange(fid_, nullptr)->fid);
    }

  private:
    T* fid_ = nullptr;
};

/// The device is not there any more, or does nothing.
class DeviceGone : public Error {
  public:
    using Error::Error;
};

/// Throws Error{backend} "call failed on where: reason (code)" for a negative return value, with what the
/// process has run out of, where that is so; DeviceGone where that is the reason.
void check(long rc, const char* call, std::string_view where);

}  // namespace railyard::fabric
