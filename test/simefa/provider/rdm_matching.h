// Which arrived message goes into which posted buffer, on fabric efa.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

#include "provider/rdm_packet.h"
#include "provider/request.h"

namespace simefa {

struct PostedReceive {
    Segment segments[segment_limit];
    std::uint8_t segment_count = 0;
    bool tagged = false;
    std::uint64_t tag = 0, ignore = 0, capacity = 0;
    std::uint64_t source = 0;  ///< Address::id wanted, 0: any
    void* context = nullptr;
};

/// A message of which at least one packet came.
struct InboundMessage {
    PacketHeader header{};
    std::uint64_t source = 0;
    std::uint64_t received = 0;
    bool in_turn = false;  ///< all messages before it have been offered to the buffers
    bool matched = false;
    PostedReceive target;
    std::vector<std::byte> waiting;  ///< what came before it was matched
};

/// Guarded by the domain's lock. Messages of one sender are matched in the order they were sent, however the
/// packets arrived, where that was asked for: there one that never comes holds up all behind it. Else as
/// their first packets arrive. Receives in the order they were posted.
class RdmMatching {
  public:
    class Sink {
      public:
        virtual void message_complete(const InboundMessage& message) noexcept = 0;

      protected:
        ~Sink() = default;
    };
    RdmMatching(Sink& sink, bool ordered) noexcept : sink_(sink), ordered_(ordered) {}

    void post(const PostedReceive& receive);
    void packet(const PacketHeader& header, std::uint64_t source, const std::byte* payload,
                std::size_t length);
    [[nodiscard]] std::size_t posted() const noexcept { return receives_.size(); }

  private:
    using Messages = std::list<InboundMessage>;
    struct Sender {
        std::uint32_t next = 0;  ///< sequence whose turn it is
        std::map<std::uint32_t, Messages::iterator> open;
    };
    static bool fits(const PostedReceive& receive, const InboundMessage& message) noexcept;
    void offer(InboundMessage& message);
    void match(InboundMessage& message, const PostedReceive& receive) noexcept;
    void finish_if_whole(Messages::iterator message);
    void advance(Sender& sender);

    Sink& sink_;
    const bool ordered_;
    std::list<PostedReceive> receives_;
    Messages messages_;  ///< arrival order
    std::unordered_map<std::uint64_t, Sender> senders_;
};

}  // namespace simefa
