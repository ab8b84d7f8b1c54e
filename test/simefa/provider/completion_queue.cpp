#include "provider/completion_queue.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "provider/clock.h"
#include "provider/device_limits.h"
#include "provider/domain.h"
#include "provider/endpoint.h"
#include "provider/fids.h"
#include "provider/status.h"

namespace simefa {
namespace {

std::size_t entry_size(fi_cq_format format) noexcept {
    switch (format) {
        case FI_CQ_FORMAT_CONTEXT:
            return sizeof(fi_cq_entry);
        case FI_CQ_FORMAT_MSG:
            return sizeof(fi_cq_msg_entry);
        case FI_CQ_FORMAT_DATA:
            return sizeof(fi_cq_data_entry);
        default:
            return sizeof(fi_cq_tagged_entry);
    }
}

/// Every format is a prefix of the longest one.
void write_entry(void* to, const Completion& from, std::size_t size) noexcept {
    const fi_cq_tagged_entry entry{from.context, from.flags, from.length, from.buffer, from.data, from.tag};
    std::memcpy(to, &entry, size);
}

std::atomic<int> open_queues{0};
std::atomic<bool> devices_down{false};

void drain_counter(int descriptor) noexcept {
    std::uint64_t value = 0;
    [[maybe_unused]] const ssize_t length = ::read(descriptor, &value, sizeof(value));
}

}  // namespace

CompletionQueue::CompletionQueue(Domain& owner, const fi_cq_attr& attr, void* context_of_user)
    : fid_cq{},
      domain_(owner),
      format_(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr.format),
      wait_object_(attr.wait_obj),
      ring_(attr.size) {
    fid.fclass = FI_CLASS_CQ;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
    open_queues.fetch_add(1);
}

CompletionQueue::~CompletionQueue() {
    open_queues.fetch_sub(1);
    for (const int descriptor : {epoll_, timer_, event_}) {
        if (descriptor >= 0) close(descriptor);
    }
}

void CompletionQueue::take_devices_down() noexcept {
    devices_down.store(true);
    if (open_queues.load() != 0) usleep(30'000);  // a few ms for each device
}

CompletionQueue* CompletionQueue::from(::fid* handle) noexcept {
    return object_of<CompletionQueue, fid_cq>(handle);
}

int CompletionQueue::open(fid_domain* domain, fi_cq_attr* attr, fid_cq** queue, void* context) {
    switch (attr->wait_obj) {
        case FI_WAIT_NONE:
        case FI_WAIT_UNSPEC:
        case FI_WAIT_FD:
            break;
        default:
            return -FI_ENOSYS;
    }
    try {
        Domain& owner = *Domain::from(&domain->fid);
        if (attr->wait_obj != FI_WAIT_NONE && !owner.nic().slot().on(Setting::wait_objects))
            return -FI_ENOSYS;
        if (attr->wait_obj == FI_WAIT_FD && owner.shm()) return -FI_ENOSYS;
        // Fabric efa makes room for all that its endpoint's queues hold; both fabrics say what they took.
        if (attr->size == 0) attr->size = queue_default;
        if (owner.kind() == FabricKind::rdm) attr->size = std::max(attr->size, queue_default);
        auto* made = new CompletionQueue(owner, *attr, context);
        if (const int rc = attr->wait_obj == FI_WAIT_NONE ? 0 : made->open_wait_objects()) {
            delete made;
            return rc;
        }
        owner.attach(*made);
        *queue = made;
        return 0;
    } catch (const std::exception&) {
        return -FI_ENOMEM;
    }
}

int CompletionQueue::open_wait_objects() noexcept {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (epoll_ < 0 || timer_ < 0 || event_ < 0) return -FI_EMFILE;
    add_bell(timer_);
    add_bell(event_);
    return 0;
}

void CompletionQueue::add_bell(int descriptor) noexcept {
    if (epoll_ < 0) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
}

void CompletionQueue::attach(Endpoint& endpoint) {
    if (std::find(endpoints_.begin(), endpoints_.end(), &endpoint) == endpoints_.end())
        endpoints_.push_back(&endpoint);
}

void CompletionQueue::detach(Endpoint& endpoint) noexcept {
    std::erase(endpoints_, &endpoint);
}

void CompletionQueue::push(const Completion& completion) noexcept {
    if (broken_) return;
    if (size_ == ring_.size()) {
        overrun();
        return;
    }
    std::size_t at = head_ + size_++;
    if (at >= ring_.size()) at -= ring_.size();
    ring_[at] = completion;
    if (armed_ && !signaled_) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t length = write(event_, &one, sizeof(one));
        signaled_ = true;
    }
}

/// The device has no protection: completions are lost, and what comes out afterwards cannot be trusted.
void CompletionQueue::overrun() noexcept {
    broken_ = true;
    std::fprintf(stderr,
                 "simefa: completion queue of %zu entries overrun: more operations and inbound messages were "
                 "outstanding than it holds; it is of no more use\n",
                 ring_.size());
    for (Endpoint* endpoint : endpoints_)
        endpoint->report_internal_error(FI_EOVERRUN, status_internal);
}

void CompletionQueue::progress(bool by_application) noexcept {
    const std::uint64_t now = now_ns();
    for (Endpoint* endpoint : endpoints_)
        endpoint->progress(now, by_application);
}

ssize_t CompletionQueue::read(void* buffer, std::size_t count, fi_addr_t* sources) noexcept {
    if (devices_down.load(std::memory_order_relaxed)) {
        std::fputs("simefa: a completion queue is read after its device was given back\n", stderr);
        std::abort();
    }
    if (spoiled_ && !endpoints_.empty()) {
        std::fputs(
            "simefa: a completion queue is read for one endpoint after another one was closed with "
            "operations under way: their ends lie there, and rdma-core before 58 takes each for that of "
            "the operation before it\n",
            stderr);
        std::abort();
    }
    progress(true);  // whoever may sleep still gets its event: another thread's reads take it from nobody
    if (broken_) return -FI_EOVERRUN;
    if (size_ == 0) return -FI_EAGAIN;
    const std::size_t size = entry_size(format_);
    std::size_t taken = 0;
    for (; taken < count && size_ > 0; ++taken) {
        const Completion& completion = ring_[head_];
        if (completion.status != 0) return taken ? static_cast<ssize_t>(taken) : -FI_EAVAIL;
        write_entry(static_cast<char*>(buffer) + taken * size, completion, size);
        if (sources) sources[taken] = completion.source;
        if (++head_ == ring_.size()) head_ = 0;
        --size_;
    }
    return static_cast<ssize_t>(taken);
}

ssize_t CompletionQueue::read_error(fi_cq_err_entry* entry) noexcept {
    if (size_ == 0 || ring_[head_].status == 0) return -FI_EAGAIN;
    const Completion& completion = ring_[head_];
    entry->op_context = completion.context;
    entry->flags = completion.flags;
    entry->len = completion.length;
    entry->buf = completion.buffer;
    entry->data = completion.data;
    entry->tag = completion.tag;
    entry->olen = completion.overflow;
    entry->err = error_of(completion.status);
    entry->prov_errno = completion.status;
    // An application that gives a buffer gets no text from us; one that gives none must not read any.
    entry->err_data_size = 0;
    if (++head_ == ring_.size()) head_ = 0;
    --size_;
    return 1;
}

void CompletionQueue::arm(std::uint64_t due) noexcept {
    if (timer_ < 0 || due == armed_for_) return;
    armed_for_ = due;
    itimerspec when{};
    if (due != UINT64_MAX) {
        when.it_value.tv_sec = static_cast<time_t>(due / 1'000'000'000);
        when.it_value.tv_nsec = static_cast<long>(due % 1'000'000'000);
        if (due == 0) when.it_value.tv_nsec = 1;
    }
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void CompletionQueue::update_timer() noexcept {
    if (!armed_) return;
    std::uint64_t due = UINT64_MAX;
    for (const Endpoint* endpoint : endpoints_)
        due = std::min(due, endpoint->next_due());
    if (due < armed_for_) arm(due);
}

int CompletionQueue::try_wait() noexcept {
    if (epoll_ < 0) return -FI_EINVAL;
    progress(true);
    if (size_ > 0 || broken_) return -FI_EAGAIN;
    if (signaled_) drain_counter(event_);
    signaled_ = false;
    std::uint64_t due = UINT64_MAX;
    for (Endpoint* endpoint : endpoints_) {
        endpoint->expect_bell();
        due = std::min(due, endpoint->next_due());
    }
    armed_ = true;
    for (const Endpoint* endpoint : endpoints_) {
        if (endpoint->busy()) return -FI_EAGAIN;
    }
    if (due <= now_ns()) return -FI_EAGAIN;
    drain_counter(timer_);
    armed_for_ = 0;
    arm(due);
    return 0;
}

ssize_t CompletionQueue::wait_and_read(void* buffer, std::size_t count, fi_addr_t* sources,
                                       int timeout_ms) noexcept {
    if (epoll_ < 0) return -FI_ENOSYS;
    const std::uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
    for (;;) {
        int wait_ms = -1;
        {
            const std::lock_guard lock(domain_.mutex());
            const ssize_t taken = read(buffer, count, sources);
            if (taken != -FI_EAGAIN) return taken;
            const std::uint64_t now = now_ns();
            if (now >= deadline) return -FI_EAGAIN;
            if (deadline != UINT64_MAX) wait_ms = static_cast<int>((deadline - now) / 1'000'000 + 1);
            if (try_wait() != 0) wait_ms = 0;
        }
        pollfd descriptor{epoll_, POLLIN, 0};
        if (poll(&descriptor, 1, wait_ms) < 0 && errno != EINTR) return -errno;
        std::uint64_t woken = 0;
        const std::lock_guard lock(domain_.mutex());
        // fi_cq_signal: somebody wants this call to return.
        if (!signaled_ && ::read(event_, &woken, sizeof(woken)) == sizeof(woken)) return -FI_EAGAIN;
    }
}

int CompletionQueue::close_fid(::fid* handle) {
    CompletionQueue* queue = from(handle);
    {
        const std::lock_guard lock(queue->domain_.mutex());
        if (!queue->endpoints_.empty()) return -FI_EBUSY;
    }
    queue->domain_.detach(*queue);
    delete queue;
    return 0;
}

int CompletionQueue::control(::fid* handle, int command, void* argument) {
    CompletionQueue& queue = *from(handle);
    switch (command) {
        case FI_GETWAIT:
            if (queue.epoll_ < 0) return -FI_EINVAL;
            *static_cast<int*>(argument) = queue.epoll_;
            return 0;
        case FI_GETWAITOBJ:
            *static_cast<fi_wait_obj*>(argument) = queue.epoll_ < 0 ? FI_WAIT_NONE : FI_WAIT_FD;
            return 0;
        default:
            return -FI_ENOSYS;
    }
}

ssize_t CompletionQueue::read_call(fid_cq* queue, void* buffer, std::size_t count) {
    return readfrom_call(queue, buffer, count, nullptr);
}

ssize_t CompletionQueue::readfrom_call(fid_cq* queue, void* buffer, std::size_t count, fi_addr_t* sources) {
    auto& self = *static_cast<CompletionQueue*>(queue);
    const std::lock_guard lock(self.domain_.mutex());
    return self.read(buffer, count, sources);
}

ssize_t CompletionQueue::readerr_call(fid_cq* queue, fi_cq_err_entry* entry, std::uint64_t) {
    auto& self = *static_cast<CompletionQueue*>(queue);
    const std::lock_guard lock(self.domain_.mutex());
    return self.read_error(entry);
}

ssize_t CompletionQueue::sread_call(fid_cq* queue, void* buffer, std::size_t count, const void*,
                                    int timeout_ms) {
    return static_cast<CompletionQueue*>(queue)->wait_and_read(buffer, count, nullptr, timeout_ms);
}

ssize_t CompletionQueue::sreadfrom_call(fid_cq* queue, void* buffer, std::size_t count, fi_addr_t* sources,
                                        const void*, int timeout_ms) {
    return static_cast<CompletionQueue*>(queue)->wait_and_read(buffer, count, sources, timeout_ms);
}

int CompletionQueue::signal_call(fid_cq* queue) {
    auto& self = *static_cast<CompletionQueue*>(queue);
    if (self.event_ < 0) return -FI_ENOSYS;
    const std::uint64_t one = 1;
    return write(self.event_, &one, sizeof(one)) == sizeof(one) ? 0 : -FI_EAGAIN;
}

const char* CompletionQueue::strerror_call(fid_cq*, int status, const void*, char* buffer,
                                           std::size_t length) {
    const char* text = text_of(status);
    if (buffer && length > 0) std::snprintf(buffer, length, "%s", text);
    return text;
}

fi_ops CompletionQueue::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = unsupported,
    .control = control,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_cq CompletionQueue::ops_ = {
    .size = sizeof(fi_ops_cq),
    .read = read_call,
    .readfrom = readfrom_call,
    .readerr = readerr_call,
    .sread = sread_call,
    .sreadfrom = sreadfrom_call,
    .signal = signal_call,
    .strerror = strerror_call,
};

}  // namespace simefa
