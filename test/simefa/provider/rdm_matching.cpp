#include "provider/rdm_matching.h"

#include <algorithm>
#include <cstring>

#include "provider/rdm_operation.h"

namespace simefa {

bool RdmMatching::fits(const PostedReceive& receive, const InboundMessage& message) noexcept {
    const bool tagged = (message.header.flags & packet_tagged) != 0;
    if (receive.tagged != tagged) return false;
    if (receive.source != 0 && receive.source != message.source) return false;
    return !tagged || ((receive.tag ^ message.header.tag) & ~receive.ignore) == 0;
}

void RdmMatching::match(InboundMessage& message, const PostedReceive& receive) noexcept {
    message.matched = true;
    message.target = receive;
    const std::uint64_t bytes = std::min<std::uint64_t>(message.waiting.size(), receive.capacity);
    if (bytes > 0) scatter(receive.segments, receive.segment_count, 0, message.waiting.data(), bytes);
    message.waiting = {};
}

void RdmMatching::offer(InboundMessage& message) {
    const auto found = std::find_if(receives_.begin(), receives_.end(),
                                    [&](const PostedReceive& receive) { return fits(receive, message); });
    if (found == receives_.end()) return;
    match(message, *found);
    receives_.erase(found);
}

void RdmMatching::post(const PostedReceive& receive) {
    for (auto message = messages_.begin(); message != messages_.end(); ++message) {
        if (!message->in_turn || message->matched || !fits(receive, *message)) continue;
        match(*message, receive);
        finish_if_whole(message);
        return;
    }
    receives_.push_back(receive);
}

void RdmMatching::packet(const PacketHeader& header, std::uint64_t source, const std::byte* payload,
                         std::size_t length) {
    Sender& sender = senders_[source];
    auto open = sender.open.find(header.sequence);
    if (open == sender.open.end()) {
        InboundMessage message;
        message.header = header;
        message.source = source;
        message.waiting.resize(header.total);
        messages_.push_back(std::move(message));
        open = sender.open.emplace(header.sequence, std::prev(messages_.end())).first;
        if (!ordered_) {
            messages_.back().in_turn = true;
            offer(messages_.back());
        }
    }
    const Messages::iterator at = open->second;
    InboundMessage& message = *at;
    if (header.offset + length > message.header.total) return;
    if (!message.matched) {
        if (length > 0) std::memcpy(message.waiting.data() + header.offset, payload, length);
    } else if (header.offset < message.target.capacity) {
        const std::size_t room = std::min<std::uint64_t>(length, message.target.capacity - header.offset);
        scatter(message.target.segments, message.target.segment_count, header.offset, payload, room);
    }
    message.received += length;
    if (message.in_turn) {
        finish_if_whole(at);
    } else {
        advance(sender);
    }
}

/// Gives its turn to every message that is next in its sender's order.
void RdmMatching::advance(Sender& sender) {
    for (auto next = sender.open.find(sender.next); next != sender.open.end() && !next->second->in_turn;
         next = sender.open.find(sender.next)) {
        const Messages::iterator message = next->second;
        message->in_turn = true;
        ++sender.next;
        offer(*message);
        finish_if_whole(message);
    }
}

void RdmMatching::finish_if_whole(Messages::iterator message) {
    if (!message->matched || message->received < message->header.total) return;
    // Out of the lists first: the sink may post the next buffer.
    Messages done;
    done.splice(done.begin(), messages_, message);
    senders_[message->source].open.erase(message->header.sequence);
    sink_.message_complete(done.front());
}

}  // namespace simefa
