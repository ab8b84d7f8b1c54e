// Connections of one rail (FI_EP_MSG): those that operations leave over, and those that peers have made.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "fabric/address_vector.h"
#include "fabric/completion_queue.h"
#include "fabric/domain.h"
#include "fabric/fid.h"
#include "fabric/info.h"

namespace railyard::fabric {

/// To peers: each is made when something is to leave over it, one a peer. Operations on one that is over or
/// closed end with an error; the next one to that peer makes another. Role holder only.
class Connections final : ConnectionSink {
  public:
    /// An attempt that has not been answered for so long is given up for another: the network may have been
    /// away, and the kernel asks again in ever longer pauses.
    static constexpr std::uint64_t attempt_ns = 2'000'000'000;

    Connections(Domain& domain, CompletionQueue& queue, const AddressVector& addresses) noexcept
        : domain_(domain), queue_(queue), addresses_(addresses) {}
    /// Closes all.
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    /// What leads to `destination`. nullptr: there is no connection yet, or `error` says why there is none,
    /// as a positive libfabric errno.
    [[nodiscard]] fid_ep* to(fi_addr_t destination, int& error) noexcept {
        if (destination == last_destination_) [[likely]]
            return last_;
        return look_up(destination, error);
    }
    /// Closes what leads to one that is no destination any more.
    void forget(fi_addr_t destination) noexcept;
    /// An operation over it has failed: what leads there is closed, though its end has not been told of yet.
    /// A connection that is only being made stays: the operation was none of it.
    void broke(fi_addr_t destination) noexcept;

  private:
    struct Connection {
        Fid<fid_ep> endpoint;
        std::uint64_t begun_ns = 0;
        bool open = false;
        int error = 0;  ///< refused, and nobody has heard of it
    };
    using All = std::unordered_map<fi_addr_t, Connection>;

    fid_ep* look_up(fi_addr_t destination, int& error) noexcept;
    void begin(fi_addr_t destination, Connection& connection);
    void close(Connection& connection) noexcept;
    All::iterator find(const fid* connection) noexcept;
    void on_connected(fid* connection) noexcept override;
    void on_disconnected(fid* connection, int error) noexcept override;
    void on_request(fid*, InfoPtr) noexcept override {}

    Domain& domain_;
    CompletionQueue& queue_;
    const AddressVector& addresses_;
    All all_;
    fi_addr_t last_destination_ = FI_ADDR_NOTAVAIL;  ///< of the open connection used last
    fid_ep* last_ = nullptr;
    std::uint64_t failures_ = 0;  ///< to begin one, ever
};

/// From peers: whoever connects is taken in until it goes. What arrives as messages shares the receive
/// buffers of `receives`. Role holder only.
class Listener final : ConnectionSink {
  public:
    /// Listens at once. Throws Error{backend}.
    Listener(Domain& domain, CompletionQueue& queue, fid_ep* receives);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    [[nodiscard]] fid* handle() const noexcept { return &passive_->fid; }

  private:
    void on_connected(fid*) noexcept override {}
    void on_disconnected(fid* connection, int error) noexcept override;
    void on_request(fid* listener, InfoPtr request) noexcept override;

    Domain& domain_;
    CompletionQueue& queue_;
    fid_ep* const receives_;
    Fid<fid_pep> passive_;
    std::unordered_map<fid*, Fid<fid_ep>> connections_;
    std::uint64_t refused_ = 0;  ///< requests, ever
};

}  // namespace railyard::fabric
