#include "provider/event_queue.h"

#include <rdma/fi_errno.h>
#include <time.h>

#include <cstdio>
#include <new>

#include "provider/clock.h"
#include "provider/fids.h"
#include "provider/status.h"

namespace simefa {

EventQueue::EventQueue(void* context_of_user) noexcept : fid_eq{} {
    fid.fclass = FI_CLASS_EQ;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
}

EventQueue* EventQueue::from(::fid* handle) noexcept {
    return object_of<EventQueue, fid_eq>(handle);
}

int EventQueue::open(fid_fabric*, fi_eq_attr* attr, fid_eq** queue, void* context) {
    if (attr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC) return -FI_ENOSYS;
    *queue = new (std::nothrow) EventQueue(context);
    return *queue ? 0 : -FI_ENOMEM;
}

void EventQueue::push_error(::fid* object, int error, int status) noexcept {
    fi_eq_err_entry entry{};
    entry.fid = object;
    entry.context = object->context;
    entry.err = error;
    entry.prov_errno = status;
    const std::lock_guard lock(mutex_);
    errors_.push_back(entry);
}

ssize_t EventQueue::read(fid_eq* queue, std::uint32_t*, void*, std::size_t, std::uint64_t) {
    auto& self = *static_cast<EventQueue*>(queue);
    const std::lock_guard lock(self.mutex_);
    return self.errors_.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}

ssize_t EventQueue::sread(fid_eq* queue, std::uint32_t* event, void* buffer, std::size_t length,
                          int timeout_ms, std::uint64_t flags) {
    const std::uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
    for (;;) {
        const ssize_t rc = read(queue, event, buffer, length, flags);
        if (rc != -FI_EAGAIN || now_ns() >= deadline) return rc;
        const timespec pause{0, 200'000};
        nanosleep(&pause, nullptr);
    }
}

ssize_t EventQueue::readerr(fid_eq* queue, fi_eq_err_entry* entry, std::uint64_t flags) {
    auto& self = *static_cast<EventQueue*>(queue);
    const std::lock_guard lock(self.mutex_);
    if (self.errors_.empty()) return -FI_EAGAIN;
    *entry = self.errors_.front();
    if (!(flags & FI_PEEK)) self.errors_.pop_front();
    return sizeof(*entry);
}

const char* EventQueue::strerror_call(fid_eq*, int status, const void*, char* buffer, std::size_t length) {
    const char* text = text_of(status);
    if (buffer && length > 0) std::snprintf(buffer, length, "%s", text);
    return text;
}

int EventQueue::close_fid(::fid* handle) {
    delete from(handle);
    return 0;
}

fi_ops EventQueue::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = unsupported,
    .control = unsupported,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_eq EventQueue::ops_ = {
    .size = sizeof(fi_ops_eq),
    .read = read,
    .readerr = readerr,
    .write = unsupported,
    .sread = sread,
    .strerror = strerror_call,
};

}  // namespace simefa
