// The protocol layer of fabric efa.
#pragma once

#include "provider/request.h"

namespace simefa {

class Endpoint;
struct ReceiveSlot;

class RdmProtocol {
  public:
    RdmProtocol(Endpoint& endpoint, unsigned) : endpoint_(endpoint) {}
    ssize_t post(const Request&, Peer&) noexcept { return -38; }
    ssize_t post_receive(const Request&) noexcept { return -38; }
    void packet_arrived(const ReceiveSlot&) noexcept {}
    void progress(std::uint64_t) noexcept {}
    [[nodiscard]] std::uint64_t next_due() const noexcept { return UINT64_MAX; }

  private:
    [[maybe_unused]] Endpoint& endpoint_;
};

}  // namespace simefa
