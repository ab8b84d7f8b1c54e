// What the application posts on fabric efa.
#include <rdma/fi_errno.h>

#include "provider/endpoint.h"
#include "provider/rdm_protocol.h"
#include "provider/status.h"

namespace simefa {
namespace {

constexpr std::size_t waiting_for_handshake = 16;

std::uint64_t completion_flags_of(const Request& request) noexcept {
    switch (request.kind) {
        case Operation::Kind::write:
            return FI_RMA | FI_WRITE;
        case Operation::Kind::read:
            return FI_RMA | FI_READ;
        case Operation::Kind::send:
            break;
    }
    return (request.tagged ? FI_TAGGED : FI_MSG) | FI_SEND;
}

}  // namespace

/// What is wrong with the local side; status_ok: nothing.
int RdmProtocol::fill(RdmOperation& operation, const Request& request, Peer& peer) noexcept {
    operation.kind = request.kind;
    operation.silent = request.inject_call || endpoint_.is_silent(request.flags);
    operation.tagged = request.tagged;
    operation.has_data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
    operation.more = (request.flags & FI_MORE) != 0;
    operation.wants_receipt = (request.flags & FI_DELIVERY_COMPLETE) != 0;
    operation.completion_flags = completion_flags_of(request);
    operation.context = request.context;
    operation.length = request.length();
    operation.remote = request.remote;
    operation.key = request.key;
    operation.data = request.data & 0xffffffff;
    operation.tag = request.tag;
    operation.peer = &peer;
    peer.retain();
    operation.segment_count = static_cast<std::uint8_t>(request.count);
    const bool copied = request.inject_call || request.flags & FI_INJECT;
    RegionTable& regions = endpoint_.domain().regions();
    int status = status_ok;
    for (std::size_t i = 0; i < request.count; ++i) {
        operation.local[i] = {reinterpret_cast<std::uint64_t>(request.iov[i].iov_base),
                              request.iov[i].iov_len};
        void* descriptor = request.descriptors ? request.descriptors[i] : nullptr;
        if (!descriptor) continue;
        if (const int wrong = regions.resolve(descriptor, operation.local[i])) status = wrong;
        if (!copied) operation.regions[i] = regions.hold(descriptor);
    }
    if (status == status_ok && copied && operation.length > 0) {
        operation.injected = std::make_unique<std::byte[]>(operation.length);
        gather(operation.injected.get(), operation.local, operation.segment_count, 0, operation.length);
        operation.local[0] = {reinterpret_cast<std::uint64_t>(operation.injected.get()), operation.length};
        operation.segment_count = 1;
    }
    return status;
}

ssize_t RdmProtocol::post(const Request& request, Peer& peer) noexcept {
    if (request.kind != Operation::Kind::send) return post_rma(request, peer);
    RdmOperation* operation = endpoint_.transmit().room() > application_ ? allocate() : nullptr;
    if (!operation) return -FI_EAGAIN;
    ++application_;
    const int status = fill(*operation, request, peer);
    operation->path = RdmOperation::Path::packets;
    operation->sequence = conversations_[peer.id()].next_sequence++;
    if (status != status_ok) operation->status = status;
    list(*operation);
    pump();
    return 0;
}

ssize_t RdmProtocol::post_rma(const Request& request, Peer& peer) noexcept {
    Conversation& conversation = conversations_[peer.id()];
    const bool inject = request.inject_call || (request.flags & FI_INJECT);
    const bool has_data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
    if (conversation.answered && has_data && !agree_on_data(request.kind, conversation))
        return -FI_EOPNOTSUPP;
    if (conversation.answered && !inject && is_native(request.kind, conversation))
        return endpoint_.transmit().room() > application_ ? endpoint_.post_direct(request, peer) : -FI_EAGAIN;
    if (!conversation.answered && before_handshake_ >= waiting_for_handshake) return -FI_EAGAIN;
    RdmOperation* operation = endpoint_.transmit().room() > application_ ? allocate() : nullptr;
    if (!operation) return -FI_EAGAIN;
    ++application_;
    if (const int status = fill(*operation, request, peer)) operation->status = status;
    if (conversation.answered) {
        decide(*operation, conversation);
    } else {
        ++before_handshake_;
        conversation.waiting.push_back(operation);
        ask(conversation, peer);
    }
    pump();
    return 0;
}

}  // namespace simefa
