#include "provider/rdm_protocol.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "provider/address_vector.h"
#include "provider/endpoint.h"
#include "provider/status.h"

namespace simefa {
namespace {

constexpr std::size_t receive_buffers = 256;
constexpr std::size_t packets_at_once = 64;
constexpr std::uint64_t check_interval = 5'000'000;  // ns between two looks at peers that owe an answer

}  // namespace

RdmProtocol::RdmProtocol(Endpoint& endpoint)
    : endpoint_(endpoint),
      operations_(endpoint.transmit().room() + 1024),
      receive_buffers_(new std::byte[receive_buffers * mtu]),
      matching_(*this, endpoint.ordered()) {
    free_.reserve(operations_.size());
    for (std::size_t i = 0; i < std::min(receive_buffers, endpoint.receive().depth()); ++i) {
        const Segment buffer{reinterpret_cast<std::uint64_t>(receive_buffers_.get() + i * mtu), mtu};
        endpoint.receive().post(&buffer, 1, i);
    }
}

RdmProtocol::~RdmProtocol() {
    for (RdmOperation& operation : operations_) {
        if (!operation.live) continue;
        release_regions(operation);
        if (operation.peer) operation.peer->release();
    }
    for (ControlPacket& packet : control_)
        packet.peer->release();
}

RdmOperation* RdmProtocol::allocate() noexcept {
    RdmOperation* operation = nullptr;
    if (!free_.empty()) {
        operation = free_.back();
        free_.pop_back();
    } else if (used_ < operations_.size()) {
        operation = &operations_[used_];
        operation->index = static_cast<std::uint16_t>(used_++);
    } else {
        return nullptr;
    }
    const auto index = operation->index;
    const auto generation = static_cast<std::uint16_t>(operation->generation + 1);
    *operation = RdmOperation{};
    operation->index = index;
    operation->generation = generation;
    operation->live = true;
    return operation;
}

void RdmProtocol::release_regions(RdmOperation& operation) noexcept {
    for (std::uint32_t& key : operation.regions) {
        if (key != 0) endpoint_.domain().regions().release(std::exchange(key, 0));
    }
}

void RdmProtocol::recycle(RdmOperation& operation) noexcept {
    release_regions(operation);
    operation.live = false;
    operation.peer->release();
    free_.push_back(&operation);
}

RdmOperation* RdmProtocol::find(std::uint32_t number) noexcept {
    const std::size_t index = number & 0xffff;
    if (index >= used_) return nullptr;
    RdmOperation& operation = operations_[index];
    return operation.live && operation.number() == number ? &operation : nullptr;
}

void RdmProtocol::ask(Conversation& conversation, Peer& peer) {
    if (conversation.asked) return;
    conversation.asked = true;
    PacketHeader header{};
    header.type = PacketType::handshake_request;
    header.source = endpoint_.address();
    peer.retain();
    control_.push_back({&peer, header});
}

bool RdmProtocol::is_native(Operation::Kind kind, const Conversation& conversation) const noexcept {
    const std::uint32_t needed = kind == Operation::Kind::write ? feature_write : feature_read;
    return (conversation.features & endpoint_.features() & needed) != 0;
}

bool RdmProtocol::agree_on_data(Operation::Kind kind, const Conversation& conversation) const noexcept {
    return !is_native(kind, conversation) ||
           ((conversation.features ^ endpoint_.features()) & feature_unsolicited) == 0;
}

void RdmProtocol::decide(RdmOperation& operation, const Conversation& conversation) noexcept {
    if (operation.has_data && !agree_on_data(operation.kind, conversation)) {
        operation.status = status_post_refused;
        list(operation);
        return;
    }
    if (is_native(operation.kind, conversation)) {
        operation.path = RdmOperation::Path::native;
        start_native(operation);
        return;
    }
    operation.path =
        operation.kind == Operation::Kind::write ? RdmOperation::Path::packets : RdmOperation::Path::asked;
    list(operation);
}

void RdmProtocol::start_native(RdmOperation& operation) noexcept {
    Operation* device = endpoint_.transmit().allocate_internal();
    if (!device) {
        list(operation);
        return;
    }
    device->kind = operation.kind;
    device->length = operation.length;
    device->remote = operation.remote;
    device->key = static_cast<std::uint32_t>(operation.key);
    device->has_data = operation.has_data;
    device->data = operation.data;
    device->local_status = operation.status;
    if (operation.key > UINT32_MAX) device->local_status = status_bad_remote_address;
    device->segment_count = operation.segment_count;
    std::copy_n(operation.local, operation.segment_count, device->local);
    device->owner = this;
    device->owner_data = &operation;
    device->peer = operation.peer;
    operation.peer->retain();
    operation.packets_out = 1;
    // What waited for the handshake goes out as it was posted, though the post that was to ring may have rung
    // before, or been refused: nobody rings for it then.
    endpoint_.transmit().post(*device, operation.more && operation.kind == Operation::Kind::write);
    release_regions(operation);  // the device has it
}

void RdmProtocol::list(RdmOperation& operation) noexcept {
    if (operation.listed) return;
    operation.listed = true;
    sending_.push_back(&operation);
}

PacketHeader RdmProtocol::header_of(const RdmOperation& operation) const noexcept {
    PacketHeader header{};
    const bool responding = operation.path == RdmOperation::Path::responding;
    switch (operation.kind) {
        case Operation::Kind::send:
            header.type = PacketType::message;
            break;
        case Operation::Kind::write:
            header.type = PacketType::write;
            break;
        case Operation::Kind::read:
            header.type = responding ? PacketType::read_data : PacketType::read_request;
            break;
    }
    header.flags = static_cast<std::uint8_t>((operation.tagged ? packet_tagged : 0) |
                                             (operation.has_data ? packet_has_data : 0) |
                                             (operation.wants_receipt ? packet_wants_receipt : 0));
    header.operation = responding ? operation.remote_operation : operation.number();
    header.source = endpoint_.address();
    header.total = operation.length;
    header.offset = operation.queued;
    header.remote = operation.remote;
    header.tag = operation.tag;
    header.key = static_cast<std::uint32_t>(operation.key);
    header.data = static_cast<std::uint32_t>(operation.data);
    header.sequence = operation.sequence;
    return header;
}

/// False: no packet free, or the device takes none; try again later.
bool RdmProtocol::send_packet(Peer& peer, const PacketHeader& header, RdmOperation* operation,
                              std::size_t payload) noexcept {
    if (free_packets_.empty()) {
        if (packets_.size() >= packets_at_once) return false;
        packets_.push_back(std::make_unique<Packet>());
        free_packets_.push_back(packets_.back().get());
    }
    Operation* device = endpoint_.transmit().allocate_internal();
    if (!device) return false;
    Packet& packet = *free_packets_.back();
    free_packets_.pop_back();
    packet.operation = operation;
    std::memcpy(packet.bytes, &header, sizeof(header));
    if (payload > 0)
        gather(packet.bytes + sizeof(header), operation->local, operation->segment_count, header.offset,
               payload);
    device->kind = Operation::Kind::send;
    device->length = sizeof(header) + payload;
    device->segment_count = 1;
    device->local[0] = {reinterpret_cast<std::uint64_t>(packet.bytes), device->length};
    device->owner = this;
    device->owner_data = &packet;
    device->peer = &peer;
    device->is_packet = true;
    peer.retain();
    endpoint_.transmit().post(*device, false);
    return true;
}

/// One packet of an operation; false: nothing could be sent now.
bool RdmProtocol::send_next(RdmOperation& operation) noexcept {
    const bool carries = operation.path != RdmOperation::Path::asked;
    const std::size_t payload =
        carries ? std::min<std::uint64_t>(payload_limit, operation.length - operation.queued) : 0;
    if (!send_packet(*operation.peer, header_of(operation), &operation, payload)) return false;
    ++operation.packets_out;
    operation.header_sent = true;
    if (carries) operation.queued += payload;
    return true;
}

void RdmProtocol::progress(std::uint64_t now) noexcept {
    pump();
    if (now >= next_check_) check_peers(now);
}

/// Hands to the device what it takes.
void RdmProtocol::pump() noexcept {
    while (!control_.empty()) {
        ControlPacket& packet = control_.front();
        if (!send_packet(*packet.peer, packet.header, nullptr, 0)) return;
        packet.peer->release();
        control_.pop_front();
    }
    while (!sending_.empty()) {
        RdmOperation& operation = *sending_.front();
        const bool all_sent = operation.header_sent && (operation.path == RdmOperation::Path::asked ||
                                                        operation.queued == operation.length);
        if (operation.status == 0 && !all_sent && operation.path != RdmOperation::Path::native) {
            if (!send_next(operation)) return;
            continue;
        }
        sending_.pop_front();
        operation.listed = false;
        if (operation.path == RdmOperation::Path::native) {
            start_native(operation);
            if (operation.listed) return;
        } else {
            finish_if_done(operation);
        }
    }
}

void RdmProtocol::operation_done(Operation& device, int status) noexcept {
    RdmOperation* operation = nullptr;
    if (device.is_packet) {
        Packet& packet = *static_cast<Packet*>(device.owner_data);
        free_packets_.push_back(&packet);
        operation = packet.operation;
        if (!operation && status != 0) control_failed(packet, *device.peer, status);
    } else {
        operation = static_cast<RdmOperation*>(device.owner_data);
        operation->has_receipt = true;
    }
    if (!operation) return;
    --operation->packets_out;
    if (status != 0 && operation->status == 0) operation->status = status;
    finish_if_done(*operation);
}

/// A handshake that does not get through fails what waits for it; the next operation asks again.
void RdmProtocol::control_failed(const Packet& packet, const Peer& peer, int status) noexcept {
    PacketHeader header;
    std::memcpy(&header, packet.bytes, sizeof(header));
    if (header.type != PacketType::handshake_request) return;
    Conversation& conversation = conversations_[peer.id()];
    conversation.asked = false;
    std::vector<RdmOperation*> waiting;
    waiting.swap(conversation.waiting);
    before_handshake_ -= waiting.size();
    for (RdmOperation* failed : waiting)
        finish(*failed, status);
}

void RdmProtocol::finish_if_done(RdmOperation& operation) noexcept {
    if (operation.listed || operation.packets_out > 0) return;
    if (operation.status != 0) {
        finish(operation, operation.status);
        return;
    }
    switch (operation.path) {
        case RdmOperation::Path::undecided:
            return;
        case RdmOperation::Path::asked:
            if (operation.queued < operation.length || !operation.header_sent) return;
            break;
        case RdmOperation::Path::packets:
            if (operation.wants_receipt && !operation.has_receipt) return;
            break;
        case RdmOperation::Path::native:
        case RdmOperation::Path::responding:
            break;
    }
    finish(operation, 0);
}

void RdmProtocol::finish(RdmOperation& operation, int status) noexcept {
    if (operation.path != RdmOperation::Path::responding) {
        --application_;
        Completion completion;
        completion.context = operation.context;
        completion.flags = operation.completion_flags;
        completion.status = status;
        endpoint_.complete_transmit(completion, operation.silent);
    }
    recycle(operation);
}

/// Operations whose peer is gone get no answer any more.
void RdmProtocol::check_peers(std::uint64_t now) noexcept {
    next_check_ = now + check_interval;
    for (std::size_t i = 0; i < used_ && application_ > 0; ++i) {
        RdmOperation& operation = operations_[i];
        if (!operation.live || operation.packets_out > 0 || operation.listed) continue;
        const int reached = operation.peer->reach(now);
        if (reached == status_ok) continue;
        if (operation.path == RdmOperation::Path::undecided) {
            Conversation& conversation = conversations_[operation.peer->id()];
            before_handshake_ -= std::erase(conversation.waiting, &operation);
            conversation.asked = false;
        }
        finish(operation, reached);
    }
}

std::uint64_t RdmProtocol::next_due() const noexcept {
    // What waits for a packet buffer is woken by the device's own time; what waits for a peer looks after it.
    return application_ > 0 ? next_check_ : UINT64_MAX;
}

}  // namespace simefa
