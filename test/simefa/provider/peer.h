// A remote endpoint, and the way into its process.
#pragma once

#include <cstdint>
#include <memory>

#include "provider/nic.h"
#include "provider/status.h"
#include "shared/layout.h"
#include "shared/mapped_file.h"

namespace simefa {

enum class Direction { out, in };  // out: from local memory to the peer

struct RegionAccess {
    std::uint64_t address, length;
    std::uint32_t key;
    std::uint64_t access;    ///< FI_REMOTE_WRITE or FI_REMOTE_READ, which the region must allow
    bool backwards = false;  ///< the last bytes move first
};

/// Entry of an address vector, kept alive by the operations that go to it. Guarded by the domain's lock.
/// Shared memory of the peer's endpoint is opened when it is first needed.
class Peer {
  public:
    Peer(Nic& nic, const Address& address, std::uint64_t position) noexcept
        : nic_(nic), address_(address), id_(address.id()), position_(position) {}
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    void retain() noexcept { ++references_; }
    void release() noexcept {
        if (--references_ == 0) delete this;
    }

    [[nodiscard]] const Address& address() const noexcept { return address_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

    /// status_ok when the endpoint is there and open. status_bad_queue_pair: closed, or none of that address;
    /// status_unresponsive: its process has ended.
    int reach(std::uint64_t now) noexcept;
    /// After reach said ok.
    [[nodiscard]] EndpointRecord& endpoint() const noexcept { return endpoint_->as<EndpointRecord>(); }
    [[nodiscard]] NicSlot& remote_nic() const noexcept { return *remote_nic_; }
    /// Null until the peer was reached once.
    [[nodiscard]] NicSlot* known_remote_nic() const noexcept { return remote_nic_; }
    [[nodiscard]] std::uint16_t user() const noexcept { return user_; }
    [[nodiscard]] bool same_process() const noexcept { return same_process_; }
    /// Whether the peer's address vector has this endpoint.
    bool knows(std::uint64_t own_id) noexcept;

    /// One copy between local memory and a registered range of the peer: status_ok, status_bad_remote_address
    /// or status_unresponsive.
    int copy_region(Direction direction, const RegionAccess& remote, const Segment* local,
                    std::size_t count) noexcept;
    /// The same to memory that the peer published itself (a receive buffer).
    int copy_plain(const Segment* remote, std::size_t remote_count, const Segment* local,
                   std::size_t count) noexcept;
    /// Wakes the peer's process if it sleeps on its completion queue.
    void ring_bell() noexcept;

  private:
    bool connect() noexcept;
    bool claim_user() noexcept;

    Nic& nic_;
    const Address address_;
    const std::uint64_t id_;
    const std::uint64_t position_;
    std::uint32_t references_ = 1;
    std::shared_ptr<MappedFile> endpoint_, domain_, vector_;
    NicSlot* remote_nic_ = nullptr;
    ProcessIdentity owner_ = 0;
    ProcessIdentity target_ = 0;  // as the mover wants it
    bool same_process_ = false, dead_ = false;
    std::uint16_t user_ = 0;
    bool has_user_ = false;
    int bell_ = -1;
    std::uint64_t next_check_ = 0;
    std::uint64_t known_id_ = 0;
    std::uint32_t known_generation_ = 0;
};

}  // namespace simefa
