#include "fabric/completion_queue.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "common/log.h"
#include "common/occasional.h"
#include "fabric/op_context.h"

namespace railyard::fabric {

namespace {

/// The epoll descriptor inside epoll descriptor `outer`; -1 for none. libfabric 1.17's net provider nests the
/// one of its sockets beside a signal of the queue, which fi_trywait forgets to reset: waiting for the outer
/// one would return at once for ever after the first completion. Completions there come from the sockets
/// alone, so theirs is the one to wait for.
int nested_epoll(int outer) {
    std::ifstream lines("/proc/self/fdinfo/" + std::to_string(outer));
    std::string word;
    while (lines >> word) {
        int inner = -1;
        if (word != "tfd:" || !(lines >> inner)) continue;
        std::error_code error;
        const auto target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(inner), error);
        if (!error && target == "anon_inode:[eventpoll]") return inner;
    }
    return -1;
}

}  // namespace

CompletionQueue::CompletionQueue(const Domain& domain, std::size_t depth, bool blocking, std::size_t least)
    : domain_(domain) {
    codes_ = domain.caps().codes;
    // efa may have been told to spend receive buffers (FI_EFA_USE_UNSOLICITED_WRITE_RECV): a context then
    // says so.
    immediates_take_receives_ = codes_ == Codes::efa || (domain.info().mode & FI_RX_CQ_DATA) != 0;
    bool waitable = blocking && domain.caps().blocking_wait;
    int rc = open(depth, least, waitable);
    if (rc != 0 && waitable) {
        RAILYARD_LOG(info, domain.rail().c_str(),
                     "no waitable completion queue (%s): the progress thread polls", fi_strerror(-rc));
        waitable = false;
        rc = open(depth, least, waitable);
    }
    check(rc, "fi_cq_open", domain.rail());
    if (waitable && fi_control(&queue_->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
    if (wait_fd_ >= 0 && domain.caps().stale_wait_signal) wait_fd_ = nested_epoll(wait_fd_);
}

/// In four steps from one to the other.
int CompletionQueue::open(std::size_t depth, std::size_t least, bool waitable) noexcept {
    int rc = open(depth, waitable);
    const std::size_t step = least < depth ? (depth - least + 3) / 4 : 0;
    for (std::size_t next = depth; rc != 0 && next > least && step != 0;) {
        next = std::max(least, next - std::min(step, next));
        rc = open(next, waitable);
        if (rc != 0) continue;
        RAILYARD_LOG(info, domain_.rail().c_str(), "the device takes a completion queue of %zu, not of %zu",
                     next, depth);
    }
    return rc;
}

int CompletionQueue::open(std::size_t depth, bool waitable) noexcept {
    fi_cq_attr attr{};
    attr.size = depth;
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = waitable ? FI_WAIT_FD : FI_WAIT_NONE;
    fid_cq* queue = nullptr;
    const int rc = fi_cq_open(domain_.get(), &attr, &queue, nullptr);
    if (rc != 0) return rc;
    queue_ = Fid<fid_cq>(queue);
    depth_ = depth;
    return 0;
}

std::size_t CompletionQueue::drain(std::size_t limit) noexcept {
    return read<false>(limit);
}

std::size_t CompletionQueue::drain_whole(std::size_t limit) noexcept {
    return read<true>(limit);
}

template <bool ends>
void CompletionQueue::drop(std::size_t limit) noexcept {
    fi_cq_data_entry entries[32];
    const auto end = [](void* context) {
        if (ends && context) static_cast<OpContext*>(context)->posted = 0;
    };
    for (std::size_t total = 0; total < limit;) {
        ssize_t count = fi_cq_read(queue_.get(), entries, std::size(entries));
        if (count == -FI_EAVAIL) {
            fi_cq_err_entry error{};
            count = fi_cq_readerr(queue_.get(), &error, 0);
            if (count > 0) end(error.op_context);
        } else {
            for (ssize_t i = 0; i < count; ++i)
                end(entries[i].flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) ? nullptr
                                                                             : entries[i].op_context);
        }
        if (count <= 0) return;
        total += static_cast<std::size_t>(count);
    }
}

template void CompletionQueue::drop<false>(std::size_t) noexcept;
template void CompletionQueue::drop<true>(std::size_t) noexcept;

template <bool whole>
std::size_t CompletionQueue::read(std::size_t limit) noexcept {
    std::size_t total = 0;
    fi_cq_data_entry entries[32];
    Completion well;  // all but its length is the same for each
    while (total < limit) {
        const ssize_t count = fi_cq_read(queue_.get(), entries, std::min(std::size(entries), limit - total));
        if (count == -FI_EAVAIL) {
            if (!complete_error()) break;
            ++total;
            continue;
        }
        if (count <= 0) {
            if (count == -FI_EAGAIN || count == 0) {
                failures_in_row_ = 0;
            } else if (count != -FI_EINTR) {
                count_failure("fi_cq_read", count);
            }
            break;
        }
        failures_in_row_ = 0;
        for (ssize_t i = 0; i < count; ++i) {
            if (entries[i].flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) [[unlikely]] {
                complete_remote(entries[i]);
            } else if (entries[i].op_context) {
                well.length = entries[i].len;
                static_cast<OpContext*>(entries[i].op_context)->complete_with(well);
            }
        }
        total += static_cast<std::size_t>(count);
        if (!whole && static_cast<std::size_t>(count) < std::size(entries)) break;
    }
    return total;
}

/// The end of a peer's write to us, or of a message with data beside it, which ours never send.
void CompletionQueue::complete_remote(const fi_cq_data_entry& entry) noexcept {
    auto* const operation = static_cast<OpContext*>(entry.op_context);
    // shm of 2.1 says FI_REMOTE_CQ_DATA of a write, and nothing else.
    if (!(entry.flags & FI_REMOTE_WRITE) && (entry.flags & (FI_RECV | FI_MSG | FI_TAGGED))) {
        if (operation) operation->complete_with({Status::ok, entry.len, 0, 0});
        return;
    }
    if ((entry.flags & FI_REMOTE_CQ_DATA) && immediates_)
        immediates_->on_immediate(static_cast<std::uint32_t>(entry.data));
    // Elsewhere a context here is none of ours: shm of 1.17 gives the writer's, of another process.
    if (immediates_take_receives_ && operation)
        operation->complete_with({.status = Status::ok, .immediate = true});
}

/// False: there was no error to read, though the queue had announced one.
bool CompletionQueue::complete_error() noexcept {
    fi_cq_err_entry error{};  // err_data_size is an input: zero asks for no error data
    const ssize_t count = fi_cq_readerr(queue_.get(), &error, 0);
    if (count <= 0) {
        count_failure("fi_cq_readerr", count);
        return false;
    }
    failures_in_row_ = 0;
    const Status status = classify_failure(codes_, error.err, error.prov_errno);
    tell_of(error, status);
    flushed_ += fabric::flushed(codes_, error.prov_errno) ? 1 : 0;
    // Errors of inbound operations carry no context of ours.
    if (!error.op_context) return true;
    const bool first = static_cast<OpContext*>(error.op_context)
                           ->complete_with({status, 0, error.err, error.prov_errno,
                                            receiver_not_ready(codes_, error.err, error.prov_errno),
                                            unknown_at_target(codes_, error.prov_errno),
                                            key_refused(codes_, error.prov_errno)});
    if (!first && worth_a_line(++repeated_)) {
        RAILYARD_LOG(
            error, domain_.rail().c_str(),
            "the provider has ended an operation twice (%llu so far); tcp of libfabric before 1.18 does "
            "so to a READ whose connection breaks under it, and frees its memory twice: use a newer one",
            static_cast<unsigned long long>(repeated_));
    }
    return true;
}

/// Where another rail or another try may help, that is nobody's concern yet.
void CompletionQueue::tell_of(const fi_cq_err_entry& error, Status status) noexcept {
    const bool final = status != Status::remote_disconnect && !key_refused(codes_, error.prov_errno);
    const log::Level level = final && worth_a_line(++failed_) ? log::Level::warn : log::Level::debug;
    if (!log::enabled(level)) return;
    log::write(level, domain_.rail().c_str(), "operation failed: %s (%d), provider: %s (%d)",
               fi_strerror(error.err), error.err,
               fi_cq_strerror(queue_.get(), error.prov_errno, error.err_data, nullptr, 0), error.prov_errno);
}

void CompletionQueue::count_failure(const char* call, ssize_t answer) noexcept {
    const int error = static_cast<int>(-answer);
    ++failures_in_row_;
    if (worth_a_line(++failures_)) {
        RAILYARD_LOG(error, domain_.rail().c_str(), "%s: %s (%d), %llu such answers so far", call,
                     fi_strerror(error), error, static_cast<unsigned long long>(failures_));
    }
    const bool final = error == FI_EOVERRUN || error == FI_ENODEV || error == FI_EIO;
    if (error == FI_ENODEV) device_gone_.store(true, std::memory_order_relaxed);
    if (!final && failures_in_row_ < most_failures) return;
    if (broken_.exchange(true, std::memory_order_relaxed)) return;
    RAILYARD_LOG(error, domain_.rail().c_str(),
                 "the completion queue is broken: nothing ends on it any more");
}

}  // namespace railyard::fabric
