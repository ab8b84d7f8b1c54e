// The endpoint of one rail: the only poster of messages and one-sided operations.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fabric/address_vector.h"
#include "fabric/completion_queue.h"
#include "fabric/connections.h"
#include "fabric/domain.h"
#include "fabric/fid.h"
#include "fabric/op_context.h"

namespace railyard::fabric {

/// EAGAIN is a state, not a failure: drain completions, serve others, come back.
enum class PostResult { ok, again, failed };

/// One contiguous read or write.
struct RmaPiece {
    std::uint64_t local = 0;
    std::uint64_t length = 0;
    void* descriptor = nullptr;  ///< of the local registration on this rail
    std::uint64_t remote = 0;    ///< pointer or offset, as the target's region wants it
    std::uint64_t key = 0;
};

/// Role holder only. `op` stays with the provider from PostResult::ok until its complete_with.
class Endpoint {
  public:
    /// Where connections are made (ProviderCaps::connected), one end of all connections of a rail: theirs, to
    /// receive, or ours, to send from. Elsewhere every endpoint does both; one to send from is to receive
    /// nothing but answers.
    enum class Duty { receive, send };
    /// Throws Error{backend}.
    Endpoint(Domain& domain, CompletionQueue& queue, AddressVector& addresses, Duty duty = Duty::receive);

    enum class Direction { read, write };  ///< of one-sided operations: RmaRow
    PostResult post_send(OpContext& op, void* buffer, std::size_t length, void* descriptor,
                         fi_addr_t destination) noexcept;
    /// The same; its completion means that the peer has it.
    PostResult post_confirmed_send(OpContext& op, void* buffer, std::size_t length, void* descriptor,
                                   fi_addr_t destination) noexcept;
    PostResult post_receive(OpContext& op, void* buffer, std::size_t length, void* descriptor) noexcept;

    /// True when the provider moves GPU memory peer to peer only: never through a copy by the CPU.
    [[nodiscard]] bool reaches_gpu_memory() const noexcept { return reaches_gpu_memory_; }

    /// Its writes are messages to the provider at the peer, whatever that one's device can do (fabric efa).
    [[nodiscard]] bool emulates_writes() const noexcept { return emulates_writes_; }

    /// Makes writes ask for FI_DELIVERY_COMPLETE. On from the start unless the provider's caps say
    /// direct_rma.
    void confirm_delivery() noexcept { write_flags_ = FI_COMPLETION | FI_DELIVERY_COMPLETE; }

    /// Positive errno of the last post that answered PostResult::failed.
    [[nodiscard]] int last_error() const noexcept { return last_error_; }
    /// This endpoint's address, as a peer's AddressVector takes it; of an end to send from, no more than its
    /// interface.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] fid* handle() const noexcept { return &endpoint_->fid; }
    /// `destination` has been removed from the address vector.
    void forget(fi_addr_t destination) noexcept {
        if (connections_) connections_->forget(destination);
    }
    /// An operation towards it ended because nobody is there: nothing more goes over that connection, if it
    /// was one.
    void broke(fi_addr_t destination) noexcept {
        if (connections_) connections_->broke(destination);
    }

  private:
    friend class RmaRow;

    void open_datagrams(const Domain& domain, CompletionQueue& queue, AddressVector& addresses, Duty duty);
    void open_connected(Domain& domain, CompletionQueue& queue, const AddressVector& addresses, Duty duty);
    PostResult finish(OpContext& op, ssize_t rc) noexcept;
    [[gnu::cold, gnu::noinline]] PostResult refused(ssize_t rc) noexcept;
    /// nullptr: there is no way there now; without an error in `missing_`, it is being made.
    [[nodiscard]] fid_ep* way_to(fi_addr_t destination) noexcept {
        return connections_ ? connections_->to(destination, missing_) : endpoint_.get();
    }
    [[gnu::cold]] PostResult no_way() noexcept;

    const AddressVector& addresses_;
    Fid<fid_ep> endpoint_;  ///< of connections: the receive buffers that they share, or none
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<Connections> connections_;
    int missing_ = 0;
    std::uint64_t write_flags_ = FI_COMPLETION;
    std::uint64_t more_flag_ = FI_MORE;  ///< 0 where it is not to be asked for
    bool reaches_gpu_memory_ = false;
    bool emulates_writes_ = false;
    std::string name_;
    int last_error_ = 0;
};

inline PostResult Endpoint::finish(OpContext& op, ssize_t rc) noexcept {
    if (rc == 0) [[likely]] {
        op.posted = 1;
        return PostResult::ok;
    }
    return refused(rc);
}

/// Reads or writes to one peer, one after the other: what is the same for all of them is written down once.
/// For as long as nothing else is done with the endpoint.
class RmaRow {
  public:
    RmaRow(Endpoint& endpoint, fi_addr_t destination, Endpoint::Direction direction) noexcept
        : endpoint_(endpoint),
          way_(endpoint.way_to(destination)),
          flags_(direction == Endpoint::Direction::read ? FI_COMPLETION : endpoint.write_flags_),
          more_(endpoint.more_flag_) {
        // As fi_readmsg and fi_writemsg do, once for all.
        if (way_) post_ = direction == Endpoint::Direction::read ? way_->rma->readmsg : way_->rma->writemsg;
        message_.msg_iov = &local_;
        message_.desc = &descriptor_;
        message_.iov_count = 1;
        message_.addr = endpoint.addresses_.at_provider(destination);
        message_.rma_iov = &remote_;
        message_.rma_iov_count = 1;
    }
    RmaRow(const RmaRow&) = delete;
    RmaRow& operator=(const RmaRow&) = delete;

    /// Of writes: each brings the peer's ImmediateSink a number once its bytes are in place, `first` and on
    /// from there.
    void bring_immediates(std::uint32_t first) noexcept {
        message_.data = first;
        flags_ |= FI_REMOTE_CQ_DATA;
    }
    /// Only where this says ok may something be posted.
    [[nodiscard]] PostResult ready() const noexcept {
        if (way_) [[likely]]
            return PostResult::ok;
        return endpoint_.no_way();
    }

    /// `more`: another one is certain to follow at once, so the doorbell may wait.
    // Inline, so that the piece of each chunk is never in memory: a tenth of what a descriptor costs us.
    PostResult post(OpContext& op, const RmaPiece& piece, bool more) noexcept {
        local_ = {reinterpret_cast<void*>(piece.local), piece.length};
        descriptor_ = piece.descriptor;
        remote_ = {piece.remote, piece.length, piece.key};
        message_.context = &op;
        const PostResult result =
            endpoint_.finish(op, post_(way_, &message_, more ? flags_ | more_ : flags_));
        ++message_.data;
        return result;
    }

    /// Several pieces in one operation: no more than most_pieces, and than ProviderCaps::rma_pieces.
    static constexpr std::size_t most_pieces = 4;
    PostResult post(OpContext& op, std::span<const RmaPiece> pieces, bool more) noexcept {
        std::array<iovec, most_pieces> locals;
        std::array<void*, most_pieces> descriptors;
        std::array<fi_rma_iov, most_pieces> remotes;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const RmaPiece& piece = pieces[i];
            locals[i] = {reinterpret_cast<void*>(piece.local), piece.length};
            descriptors[i] = piece.descriptor;
            remotes[i] = {piece.remote, piece.length, piece.key};
        }
        fi_msg_rma message = message_;
        message.msg_iov = locals.data();
        message.desc = descriptors.data();
        message.rma_iov = remotes.data();
        message.iov_count = message.rma_iov_count = pieces.size();
        message.context = &op;
        return endpoint_.finish(op, post_(way_, &message, more ? flags_ | more_ : flags_));
    }

  private:
    Endpoint& endpoint_;
    fid_ep* const way_;
    decltype(fi_ops_rma::writemsg) post_ = nullptr;
    std::uint64_t flags_;
    const std::uint64_t more_;
    iovec local_{};
    void* descriptor_ = nullptr;
    fi_rma_iov remote_{};
    fi_msg_rma message_{};
};

}  // namespace railyard::fabric
