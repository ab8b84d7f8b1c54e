// What a packet of fabric efa's protocol does at the side where it arrives.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "provider/address_vector.h"
#include "provider/endpoint.h"
#include "provider/rdm_protocol.h"
#include "provider/status.h"

namespace simefa {

void gather(std::byte* to, const Segment* from, std::size_t count, std::uint64_t offset,
            std::size_t length) noexcept {
    for (std::size_t i = 0; i < count && length > 0; ++i) {
        if (offset >= from[i].length) {
            offset -= from[i].length;
            continue;
        }
        const std::size_t bytes = std::min<std::uint64_t>(from[i].length - offset, length);
        std::memcpy(to, reinterpret_cast<const void*>(from[i].address + offset), bytes);
        to += bytes;
        length -= bytes;
        offset = 0;
    }
}

void scatter(const Segment* to, std::size_t count, std::uint64_t offset, const std::byte* from,
             std::size_t length) noexcept {
    for (std::size_t i = 0; i < count && length > 0; ++i) {
        if (offset >= to[i].length) {
            offset -= to[i].length;
            continue;
        }
        const std::size_t bytes = std::min<std::uint64_t>(to[i].length - offset, length);
        std::memcpy(reinterpret_cast<void*>(to[i].address + offset), from, bytes);
        from += bytes;
        length -= bytes;
        offset = 0;
    }
}

ssize_t RdmProtocol::post_receive(const Request& request) noexcept {
    PostedReceive receive;
    receive.segment_count = static_cast<std::uint8_t>(request.count);
    for (std::size_t i = 0; i < request.count; ++i) {
        Segment& segment = receive.segments[i];
        segment = {reinterpret_cast<std::uint64_t>(request.iov[i].iov_base), request.iov[i].iov_len};
        void* descriptor = request.descriptors ? request.descriptors[i] : nullptr;
        if (descriptor && endpoint_.domain().regions().resolve(descriptor, segment) != status_ok)
            return -FI_EINVAL;
        receive.capacity += segment.length;
    }
    receive.tagged = request.tagged;
    receive.tag = request.tag;
    receive.ignore = request.ignore;
    receive.context = request.context;
    if (const Peer* source = endpoint_.vector().find(request.peer)) receive.source = source->id();
    if (matching_.posted() >= endpoint_.receive().depth()) return -FI_EAGAIN;
    try {
        matching_.post(receive);
        return 0;
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    }
}

void RdmProtocol::packet_arrived(const ReceiveSlot& slot) noexcept {
    const auto* bytes = reinterpret_cast<const std::byte*>(slot.segments[0].address);
    PacketHeader header;
    if (slot.length >= sizeof(header)) {
        std::memcpy(&header, bytes, sizeof(header));
        try {
            handle(header, bytes + sizeof(header), slot.length - sizeof(header));
        } catch (const std::bad_alloc&) {
            endpoint_.report_internal_error(FI_ENOMEM, status_internal);
        }
    }
    endpoint_.receive().post(slot.segments, 1, slot.context);
}

void RdmProtocol::data_arrived(const ReceiveSlot& slot) noexcept {
    Completion completion;
    completion.flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
    completion.length = slot.length;
    completion.data = slot.data;
    completion.source = endpoint_.vector().position_of(slot.source);
    endpoint_.complete_receive(completion);
    endpoint_.receive().post(slot.segments, 1, slot.context);
}

void RdmProtocol::handle(const PacketHeader& header, const std::byte* payload, std::size_t length) {
    switch (header.type) {
        case PacketType::handshake_request: {
            PacketHeader answer{};
            answer.type = PacketType::handshake;
            answer.features = endpoint_.features();
            reply(header.source, answer);
            return;
        }
        case PacketType::handshake:
            handle_handshake(header);
            return;
        case PacketType::message:
            matching_.packet(header, header.source.id(), payload, length);
            return;
        case PacketType::write:
            handle_write(header, payload, length);
            return;
        case PacketType::read_request:
            handle_read_request(header);
            return;
        case PacketType::read_data:
            handle_read_data(header, payload, length);
            return;
        case PacketType::receipt:
            handle_receipt(header);
            return;
    }
}

void RdmProtocol::reply(const Address& to, const PacketHeader& header) {
    Peer& peer = endpoint_.vector().implicit(to);
    peer.retain();
    control_.push_back({&peer, header});
    control_.back().header.source = endpoint_.address();
}

void RdmProtocol::send_receipt(const PacketHeader& about, int status) {
    PacketHeader receipt{};
    receipt.type = PacketType::receipt;
    receipt.operation = about.operation;
    receipt.status = status;
    reply(about.source, receipt);
}

void RdmProtocol::handle_handshake(const PacketHeader& header) {
    Conversation& conversation = conversations_[header.source.id()];
    conversation.answered = true;
    conversation.features = header.features;
    std::vector<RdmOperation*> waiting;
    waiting.swap(conversation.waiting);
    before_handshake_ -= waiting.size();
    for (RdmOperation* operation : waiting)
        decide(*operation, conversation);
}

void RdmProtocol::handle_write(const PacketHeader& header, const std::byte* payload, std::size_t length) {
    const std::uint64_t id = header.source.id() ^ std::uint64_t{header.operation} << 20;
    std::int64_t& so_far = partial_writes_[id];
    Segment target{header.remote + header.offset, length};
    const Segment whole{header.remote, header.total};
    if (!endpoint_.domain().regions().resolve_remote(header.key, FI_REMOTE_WRITE, whole, target)) {
        if (so_far >= 0) send_receipt(header, status_bad_remote_address);
        so_far = -1;
        return;
    }
    scatter(&target, 1, 0, payload, length);
    so_far += static_cast<std::int64_t>(length);
    if (so_far < static_cast<std::int64_t>(header.total)) return;
    partial_writes_.erase(id);
    if (header.flags & packet_has_data) {
        Completion completion;
        completion.flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
        completion.length = header.total;
        completion.data = header.data;
        completion.source = endpoint_.vector().position_of(header.source.id());
        endpoint_.complete_receive(completion);
    }
    if (header.flags & packet_wants_receipt) send_receipt(header, status_ok);
}

void RdmProtocol::handle_read_request(const PacketHeader& header) {
    Segment source{header.remote, header.total};
    const Segment whole = source;
    RdmOperation* answer = nullptr;
    if (endpoint_.domain().regions().resolve_remote(header.key, FI_REMOTE_READ, whole, source))
        answer = allocate();
    if (!answer) {
        send_receipt(header, status_bad_remote_address);
        return;
    }
    answer->kind = Operation::Kind::read;
    answer->path = RdmOperation::Path::responding;
    answer->remote_operation = header.operation;
    answer->length = header.total;
    answer->local[0] = source;
    answer->segment_count = 1;
    answer->peer = &endpoint_.vector().implicit(header.source);
    answer->peer->retain();
    list(*answer);
}

void RdmProtocol::handle_read_data(const PacketHeader& header, const std::byte* payload, std::size_t length) {
    RdmOperation* operation = find(header.operation);
    if (!operation || operation->path != RdmOperation::Path::asked) return;
    if (header.offset + length > operation->length) return;
    scatter(operation->local, operation->segment_count, header.offset, payload, length);
    operation->queued += length;
    finish_if_done(*operation);
}

void RdmProtocol::handle_receipt(const PacketHeader& header) {
    RdmOperation* operation = find(header.operation);
    if (!operation || operation->path == RdmOperation::Path::responding) return;
    operation->has_receipt = true;
    if (header.status != 0) operation->status = header.status;
    finish_if_done(*operation);
}

void RdmProtocol::message_complete(const InboundMessage& message) noexcept {
    Completion completion;
    completion.context = message.target.context;
    completion.flags = FI_RECV | (message.header.flags & packet_tagged ? FI_TAGGED : FI_MSG);
    if (message.header.flags & packet_has_data) completion.flags |= FI_REMOTE_CQ_DATA;
    completion.length = std::min(message.header.total, message.target.capacity);
    completion.data = message.header.data;
    completion.tag = message.header.tag;
    completion.source = endpoint_.vector().position_of(message.source);
    if (message.target.segment_count)
        completion.buffer = reinterpret_cast<void*>(message.target.segments[0].address);
    if (message.header.total > message.target.capacity) {
        completion.status = status_remote_length;
        completion.overflow = message.header.total - message.target.capacity;
    }
    endpoint_.complete_receive(completion);
    if (message.header.flags & packet_wants_receipt) {
        try {
            send_receipt(message.header, completion.status);
        } catch (const std::bad_alloc&) {
            endpoint_.report_internal_error(FI_ENOMEM, status_internal);
        }
    }
}

}  // namespace simefa
