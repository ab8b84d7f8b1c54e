// Event queue: where the device reports what belongs to no operation.
#pragma once

#include <rdma/fi_eq.h>

#include <deque>
#include <mutex>

namespace simefa {

class EventQueue : public fid_eq {
  public:
    static int open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** queue, void* context);
    static EventQueue* from(::fid* handle) noexcept;

    void push_error(::fid* object, int error, int status) noexcept;

  private:
    explicit EventQueue(void* context_of_user) noexcept;
    static ssize_t read(fid_eq* queue, std::uint32_t* event, void* buffer, std::size_t length,
                        std::uint64_t flags);
    static ssize_t sread(fid_eq* queue, std::uint32_t* event, void* buffer, std::size_t length,
                         int timeout_ms, std::uint64_t flags);
    static ssize_t readerr(fid_eq* queue, fi_eq_err_entry* entry, std::uint64_t flags);
    static const char* strerror_call(fid_eq* queue, int status, const void* data, char* buffer,
                                     std::size_t length);
    static int close_fid(::fid* handle);
    static fi_ops fid_ops_;
    static fi_ops_eq ops_;

    std::mutex mutex_;
    std::deque<fi_eq_err_entry> errors_;
};

}  // namespace simefa
