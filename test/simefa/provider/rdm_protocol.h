// The protocol layer of fabric efa: handshakes, messages of any length, emulated READ and WRITE.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "provider/completion_queue.h"
#include "provider/rdm_matching.h"
#include "provider/rdm_operation.h"
#include "provider/rdm_packet.h"
#include "provider/request.h"

namespace simefa {

class Endpoint;

/// Guarded by the domain's lock. Progress is manual: nothing is answered, matched or emulated unless the
/// application reads a completion queue.
///
/// The first READ or WRITE to a peer asks it what it can (handshake); at most 16 operations wait for that,
/// further ones get EAGAIN. Where both devices have the operation it then goes to the device as it is, else
/// into packets that the target's progress carries out.
class RdmProtocol final : private OperationOwner, private RdmMatching::Sink {
  public:
    explicit RdmProtocol(Endpoint& endpoint);
    ~RdmProtocol();
    RdmProtocol(const RdmProtocol&) = delete;
    RdmProtocol& operator=(const RdmProtocol&) = delete;

    ssize_t post(const Request& request, Peer& peer) noexcept;
    ssize_t post_receive(const Request& request) noexcept;
    void packet_arrived(const ReceiveSlot& slot) noexcept;
    /// A WRITE of the device has taken one of our receive buffers for its immediate data.
    void data_arrived(const ReceiveSlot& slot) noexcept;
    void progress(std::uint64_t now) noexcept;
    /// When progress has something to do; UINT64_MAX: never on its own.
    [[nodiscard]] std::uint64_t next_due() const noexcept;

  private:
    struct Conversation {
        bool asked = false, answered = false;
        std::uint32_t features = 0;
        std::uint32_t next_sequence = 0;
        std::vector<RdmOperation*> waiting;  ///< for the answer
    };
    struct Packet {
        RdmOperation* operation = nullptr;  ///< null: a control packet
        alignas(8) std::byte bytes[mtu];
    };
    struct ControlPacket {
        Peer* peer;  ///< holds a reference
        PacketHeader header;
    };

    // Posting (rdm_post.cpp) and sending (rdm_protocol.cpp).
    RdmOperation* allocate() noexcept;
    void recycle(RdmOperation& operation) noexcept;
    void release_regions(RdmOperation& operation) noexcept;
    RdmOperation* find(std::uint32_t number) noexcept;
    int fill(RdmOperation& operation, const Request& request, Peer& peer) noexcept;
    ssize_t post_rma(const Request& request, Peer& peer) noexcept;
    void ask(Conversation& conversation, Peer& peer);
    void decide(RdmOperation& operation, const Conversation& conversation) noexcept;
    /// Whether the device may bring immediate data: both sides take a receive buffer for it, or neither. What
    /// goes by packets has it there.
    [[nodiscard]] bool agree_on_data(Operation::Kind kind, const Conversation& conversation) const noexcept;
    [[nodiscard]] bool is_native(Operation::Kind kind, const Conversation& conversation) const noexcept;
    void start_native(RdmOperation& operation) noexcept;
    void list(RdmOperation& operation) noexcept;
    void pump() noexcept;
    bool send_next(RdmOperation& operation) noexcept;
    bool send_packet(Peer& peer, const PacketHeader& header, RdmOperation* operation,
                     std::size_t payload) noexcept;
    PacketHeader header_of(const RdmOperation& operation) const noexcept;
    void reply(const Address& to, const PacketHeader& header);
    void finish(RdmOperation& operation, int status) noexcept;
    void finish_if_done(RdmOperation& operation) noexcept;
    void control_failed(const Packet& packet, const Peer& peer, int status) noexcept;
    void check_peers(std::uint64_t now) noexcept;
    void operation_done(Operation& operation, int status) noexcept override;

    // Receiving (rdm_inbound.cpp).
    void handle(const PacketHeader& header, const std::byte* payload, std::size_t length);
    void handle_handshake(const PacketHeader& header);
    void handle_write(const PacketHeader& header, const std::byte* payload, std::size_t length);
    void handle_read_request(const PacketHeader& header);
    void handle_read_data(const PacketHeader& header, const std::byte* payload, std::size_t length);
    void handle_receipt(const PacketHeader& header);
    void send_receipt(const PacketHeader& about, int status);
    void message_complete(const InboundMessage& message) noexcept override;

    Endpoint& endpoint_;
    std::vector<RdmOperation> operations_;
    std::vector<RdmOperation*> free_;
    std::size_t used_ = 0, application_ = 0;
    std::unordered_map<std::uint64_t, Conversation> conversations_;
    std::size_t before_handshake_ = 0;
    std::deque<RdmOperation*> sending_;
    std::deque<ControlPacket> control_;
    std::vector<std::unique_ptr<Packet>> packets_;
    std::vector<Packet*> free_packets_;
    std::unique_ptr<std::byte[]> receive_buffers_;
    RdmMatching matching_;
    /// Emulated writes of which not all packets came: bytes so far, or a negative status.
    std::unordered_map<std::uint64_t, std::int64_t> partial_writes_;
    std::uint64_t next_check_ = 0;
};

}  // namespace simefa
