// From libfabric's data calls to operations of the device.
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstring>
#include <mutex>

#include "provider/address_vector.h"
#include "provider/device_limits.h"
#include "provider/endpoint.h"
#include "provider/fids.h"
#include "provider/rdm_protocol.h"

namespace simefa {
namespace {

std::uint64_t completion_flags_of(Operation::Kind kind) noexcept {
    switch (kind) {
        case Operation::Kind::write:
            return FI_RMA | FI_WRITE;
        case Operation::Kind::read:
            return FI_RMA | FI_READ;
        case Operation::Kind::send:
            break;
    }
    return FI_MSG | FI_SEND;
}

/// Fills the local side. An unknown descriptor or a buffer outside its region is the device's to report,
/// later.
void resolve_local(Operation& operation, const Request& request, const RegionTable& regions) noexcept {
    operation.segment_count = static_cast<std::uint8_t>(request.count);
    for (std::size_t i = 0; i < request.count; ++i) {
        Segment& segment = operation.local[i];
        segment = {reinterpret_cast<std::uint64_t>(request.iov[i].iov_base), request.iov[i].iov_len};
        void* descriptor = request.descriptors ? request.descriptors[i] : nullptr;
        if (!descriptor) continue;
        if (const int status = regions.resolve(descriptor, segment)) operation.local_status = status;
    }
}

/// Inline data leaves with the doorbell, so the buffer is the application's again.
void copy_inline(Operation& operation, const Request& request) noexcept {
    std::size_t done = 0;
    for (std::size_t i = 0; i < request.count; ++i) {
        std::memcpy(operation.inline_data + done, request.iov[i].iov_base, request.iov[i].iov_len);
        done += request.iov[i].iov_len;
    }
    operation.local[0] = {reinterpret_cast<std::uint64_t>(operation.inline_data), done};
    operation.segment_count = 1;
}

bool has_all_descriptors(const Request& request) noexcept {
    for (std::size_t i = 0; i < request.count; ++i) {
        if (request.iov[i].iov_len > 0 && (!request.descriptors || !request.descriptors[i])) return false;
    }
    return true;
}

}  // namespace

/// The device rings at a refused post for what was posted before it with FI_MORE; fabric efa refuses before
/// the device hears of it.
ssize_t Endpoint::refuse(int error) noexcept {
    if (direct_) transmit_->ring();
    return -error;
}

int Endpoint::check(const Request& request) const noexcept {
    if (request.count > segment_limit) return FI_EINVAL;
    if (request.kind != Operation::Kind::send && request.remote_length != request.length()) return FI_EINVAL;
    if (request.flags & FI_INJECT || request.inject_call) {
        if (request.length() > inject_size_ || (direct_ && request.kind != Operation::Kind::send))
            return FI_EINVAL;
    } else if (direct_ && !has_all_descriptors(request)) {
        return FI_EINVAL;
    }
    if (!direct_) return 0;
    if (request.tagged) return FI_ENOSYS;
    return request.length() > (request.kind == Operation::Kind::send ? mtu : max_rdma) ? FI_EMSGSIZE : 0;
}

ssize_t Endpoint::post(const Request& request) noexcept {
    const std::lock_guard lock(domain_.mutex());
    if (!enabled_) return -FI_EOPBADSTATE;
    Nic& device = nic();
    device.refresh();
    if (device.get(Setting::gone)) return refuse(FI_ENODEV);
    if (device.strikes(Setting::eagain_probability, Setting::eagain_next)) {
        device.slot().count(Counter::refused_posts);
        return refuse(FI_EAGAIN);
    }
    if (const int error = check(request)) return refuse(error);
    Peer* peer = vector_->find(request.peer);
    if (!peer) return refuse(FI_EINVAL);
    const ssize_t rc = protocol_ ? protocol_->post(request, *peer) : post_direct(request, *peer);
    if (rc == -FI_EAGAIN) {
        device.slot().count(Counter::refused_posts);
        return refuse(FI_EAGAIN);
    }
    if (rc == 0) transmit_queue_->update_timer();
    return rc;
}

ssize_t Endpoint::post_direct(const Request& request, Peer& peer) noexcept {
    Operation* operation = transmit_->allocate();
    if (!operation) return -FI_EAGAIN;
    operation->kind = request.kind;
    operation->silent = request.inject_call || is_silent(request.flags);
    operation->completion_flags = completion_flags_of(request.kind);
    operation->context = request.context;
    operation->length = request.length();
    operation->remote = request.remote;
    operation->key = static_cast<std::uint32_t>(request.key);
    operation->has_data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
    operation->data = request.data & 0xffffffff;
    if (request.key > UINT32_MAX) operation->local_status = status_bad_remote_address;
    if (request.flags & FI_INJECT || request.inject_call) {
        copy_inline(*operation, request);
    } else {
        resolve_local(*operation, request, domain_.regions());
    }
    operation->peer = &peer;
    peer.retain();
    // READs of fabric efa ring always.
    const bool may_wait = direct_ || request.kind != Operation::Kind::read;
    transmit_->post(*operation, may_wait && (request.flags & FI_MORE) != 0);
    return 0;
}

ssize_t Endpoint::post_receive(const Request& request) noexcept {
    const std::lock_guard lock(domain_.mutex());
    if (!enabled_) return -FI_EOPBADSTATE;
    if (request.count > segment_limit) return -FI_EINVAL;
    if (protocol_) return protocol_->post_receive(request);
    if (request.tagged) return -FI_ENOSYS;
    if (!has_all_descriptors(request)) return -FI_EINVAL;
    Segment segments[segment_limit];
    for (std::size_t i = 0; i < request.count; ++i) {
        segments[i] = {reinterpret_cast<std::uint64_t>(request.iov[i].iov_base), request.iov[i].iov_len};
        if (request.descriptors && request.descriptors[i] &&
            domain_.regions().resolve(request.descriptors[i], segments[i]) != status_ok)
            return -FI_EINVAL;
    }
    return receive_->post(segments, request.count, reinterpret_cast<std::uint64_t>(request.context))
               ? 0
               : -FI_EAGAIN;
}

namespace {

Endpoint& object(fid_ep* endpoint) noexcept {
    return *static_cast<Endpoint*>(endpoint);
}

ssize_t send_request(fid_ep* endpoint, const fi_msg& message, std::uint64_t flags, bool inject = false) {
    Request request;
    request.iov = message.msg_iov;
    request.descriptors = message.desc;
    request.count = message.iov_count;
    request.peer = message.addr;
    request.data = message.data;
    request.context = message.context;
    request.flags = flags;
    request.inject_call = inject;
    return object(endpoint).post(request);
}

ssize_t rma_request(fid_ep* endpoint, Operation::Kind kind, const fi_msg_rma& message, std::uint64_t flags,
                    bool inject = false) {
    if (message.rma_iov_count != 1) return -FI_EINVAL;
    Request request;
    request.kind = kind;
    request.iov = message.msg_iov;
    request.descriptors = message.desc;
    request.count = message.iov_count;
    request.peer = message.addr;
    request.remote = message.rma_iov->addr;
    request.remote_length = message.rma_iov->len;
    request.key = message.rma_iov->key;
    request.data = message.data;
    request.context = message.context;
    request.flags = flags;
    request.inject_call = inject;
    return object(endpoint).post(request);
}

ssize_t receive_request(fid_ep* endpoint, const fi_msg& message, std::uint64_t flags) {
    Request request;
    request.iov = message.msg_iov;
    request.descriptors = message.desc;
    request.count = message.iov_count;
    request.peer = message.addr;
    request.context = message.context;
    request.flags = flags;
    return object(endpoint).post_receive(request);
}

ssize_t tagged_request(fid_ep* endpoint, const fi_msg_tagged& message, std::uint64_t flags, bool receive,
                       bool inject = false) {
    Request request;
    request.iov = message.msg_iov;
    request.descriptors = message.desc;
    request.count = message.iov_count;
    request.peer = message.addr;
    request.tag = message.tag;
    request.ignore = message.ignore;
    request.tagged = true;
    request.data = message.data;
    request.context = message.context;
    request.flags = flags;
    request.inject_call = inject;
    return receive ? object(endpoint).post_receive(request) : object(endpoint).post(request);
}

/// Flags of the calls that take none: those of the endpoint. FI_INJECT there says what is possible, not what
/// is meant.
std::uint64_t default_flags(fid_ep* endpoint) noexcept {
    return (object(endpoint).transmit_flags() & FI_DELIVERY_COMPLETE) | FI_COMPLETION;
}

iovec range(const void* buffer, std::size_t length) noexcept {
    return {const_cast<void*>(buffer), length};
}

ssize_t recv_call(fid_ep* ep, void* buffer, std::size_t length, void* desc, fi_addr_t source, void* context) {
    const iovec iov = range(buffer, length);
    return receive_request(ep, {&iov, &desc, 1, source, context, 0}, FI_COMPLETION);
}
ssize_t recvv_call(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t source,
                   void* context) {
    return receive_request(ep, {iov, desc, count, source, context, 0}, FI_COMPLETION);
}
ssize_t recvmsg_call(fid_ep* ep, const fi_msg* message, std::uint64_t flags) {
    return receive_request(ep, *message, flags);
}
ssize_t send_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                  void* context) {
    const iovec iov = range(buffer, length);
    return send_request(ep, {&iov, &desc, 1, peer, context, 0}, default_flags(ep));
}
ssize_t sendv_call(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t peer,
                   void* context) {
    return send_request(ep, {iov, desc, count, peer, context, 0}, default_flags(ep));
}
ssize_t sendmsg_call(fid_ep* ep, const fi_msg* message, std::uint64_t flags) {
    return send_request(ep, *message, flags);
}
ssize_t inject_call(fid_ep* ep, const void* buffer, std::size_t length, fi_addr_t peer) {
    const iovec iov = range(buffer, length);
    return send_request(ep, {&iov, nullptr, 1, peer, nullptr, 0}, FI_INJECT, true);
}
ssize_t senddata_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, std::uint64_t data,
                      fi_addr_t peer, void* context) {
    const iovec iov = range(buffer, length);
    return send_request(ep, {&iov, &desc, 1, peer, context, data}, default_flags(ep) | FI_REMOTE_CQ_DATA);
}
ssize_t injectdata_call(fid_ep* ep, const void* buffer, std::size_t length, std::uint64_t data,
                        fi_addr_t peer) {
    const iovec iov = range(buffer, length);
    return send_request(ep, {&iov, nullptr, 1, peer, nullptr, data}, FI_INJECT | FI_REMOTE_CQ_DATA, true);
}

std::size_t total(const iovec* iov, std::size_t count) noexcept {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i)
        bytes += iov[i].iov_len;
    return bytes;
}

template <Operation::Kind kind>
ssize_t rmav_call(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t peer,
                  std::uint64_t address, std::uint64_t key, void* context) {
    const fi_rma_iov remote{address, total(iov, count), key};
    return rma_request(ep, kind, {iov, desc, count, peer, &remote, 1, context, 0}, default_flags(ep));
}
ssize_t read_call(fid_ep* ep, void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                  std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov = range(buffer, length);
    return rmav_call<Operation::Kind::read>(ep, &iov, &desc, 1, peer, address, key, context);
}
ssize_t write_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                   std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov = range(buffer, length);
    return rmav_call<Operation::Kind::write>(ep, &iov, &desc, 1, peer, address, key, context);
}
ssize_t readmsg_call(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
    return rma_request(ep, Operation::Kind::read, *message, flags);
}
ssize_t writemsg_call(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
    return rma_request(ep, Operation::Kind::write, *message, flags);
}
ssize_t inject_write_call(fid_ep* ep, const void* buffer, std::size_t length, fi_addr_t peer,
                          std::uint64_t address, std::uint64_t key) {
    const iovec iov = range(buffer, length);
    const fi_rma_iov remote{address, length, key};
    return rma_request(ep, Operation::Kind::write, {&iov, nullptr, 1, peer, &remote, 1, nullptr, 0},
                       FI_INJECT, true);
}
ssize_t writedata_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, std::uint64_t data,
                       fi_addr_t peer, std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov = range(buffer, length);
    const fi_rma_iov remote{address, length, key};
    return rma_request(ep, Operation::Kind::write, {&iov, &desc, 1, peer, &remote, 1, context, data},
                       default_flags(ep) | FI_REMOTE_CQ_DATA);
}
ssize_t inject_writedata_call(fid_ep* ep, const void* buffer, std::size_t length, std::uint64_t data,
                              fi_addr_t peer, std::uint64_t address, std::uint64_t key) {
    const iovec iov = range(buffer, length);
    const fi_rma_iov remote{address, length, key};
    return rma_request(ep, Operation::Kind::write, {&iov, nullptr, 1, peer, &remote, 1, nullptr, data},
                       FI_INJECT | FI_REMOTE_CQ_DATA, true);
}

ssize_t trecv_call(fid_ep* ep, void* buffer, std::size_t length, void* desc, fi_addr_t source,
                   std::uint64_t tag, std::uint64_t ignore, void* context) {
    const iovec iov = range(buffer, length);
    return tagged_request(ep, {&iov, &desc, 1, source, tag, ignore, context, 0}, FI_COMPLETION, true);
}
ssize_t trecvv_call(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t source,
                    std::uint64_t tag, std::uint64_t ignore, void* context) {
    return tagged_request(ep, {iov, desc, count, source, tag, ignore, context, 0}, FI_COMPLETION, true);
}
ssize_t trecvmsg_call(fid_ep* ep, const fi_msg_tagged* message, std::uint64_t flags) {
    return tagged_request(ep, *message, flags, true);
}
ssize_t tsend_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                   std::uint64_t tag, void* context) {
    const iovec iov = range(buffer, length);
    return tagged_request(ep, {&iov, &desc, 1, peer, tag, 0, context, 0}, default_flags(ep), false);
}
ssize_t tsendv_call(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t peer,
                    std::uint64_t tag, void* context) {
    return tagged_request(ep, {iov, desc, count, peer, tag, 0, context, 0}, default_flags(ep), false);
}
ssize_t tsendmsg_call(fid_ep* ep, const fi_msg_tagged* message, std::uint64_t flags) {
    return tagged_request(ep, *message, flags, false);
}
ssize_t tinject_call(fid_ep* ep, const void* buffer, std::size_t length, fi_addr_t peer, std::uint64_t tag) {
    const iovec iov = range(buffer, length);
    return tagged_request(ep, {&iov, nullptr, 1, peer, tag, 0, nullptr, 0}, FI_INJECT, false, true);
}
ssize_t tsenddata_call(fid_ep* ep, const void* buffer, std::size_t length, void* desc, std::uint64_t data,
                       fi_addr_t peer, std::uint64_t tag, void* context) {
    const iovec iov = range(buffer, length);
    return tagged_request(ep, {&iov, &desc, 1, peer, tag, 0, context, data},
                          default_flags(ep) | FI_REMOTE_CQ_DATA, false);
}
ssize_t tinjectdata_call(fid_ep* ep, const void* buffer, std::size_t length, std::uint64_t data,
                         fi_addr_t peer, std::uint64_t tag) {
    const iovec iov = range(buffer, length);
    return tagged_request(ep, {&iov, nullptr, 1, peer, tag, 0, nullptr, data}, FI_INJECT | FI_REMOTE_CQ_DATA,
                          false, true);
}

}  // namespace

fi_ops_msg message_ops = {
    .size = sizeof(fi_ops_msg),
    .recv = recv_call,
    .recvv = recvv_call,
    .recvmsg = recvmsg_call,
    .send = send_call,
    .sendv = sendv_call,
    .sendmsg = sendmsg_call,
    .inject = inject_call,
    .senddata = senddata_call,
    .injectdata = injectdata_call,
};

fi_ops_rma rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = read_call,
    .readv = rmav_call<Operation::Kind::read>,
    .readmsg = readmsg_call,
    .write = write_call,
    .writev = rmav_call<Operation::Kind::write>,
    .writemsg = writemsg_call,
    .inject = inject_write_call,
    .writedata = writedata_call,
    .injectdata = inject_writedata_call,
};

fi_ops_tagged tagged_ops = {
    .size = sizeof(fi_ops_tagged),
    .recv = trecv_call,
    .recvv = trecvv_call,
    .recvmsg = trecvmsg_call,
    .send = tsend_call,
    .sendv = tsendv_call,
    .sendmsg = tsendmsg_call,
    .inject = tinject_call,
    .senddata = tsenddata_call,
    .injectdata = tinjectdata_call,
};

}  // namespace simefa
