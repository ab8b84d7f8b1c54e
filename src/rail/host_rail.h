// A rail to the other processes of this host: copies by the kernel, from one memory to the other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rail/host_card.h"
#include "rail/host_peer_rail.h"
#include "rail/pending_list.h"

namespace railyard {

/// process_vm_writev and process_vm_readv, many chunks a call, in bounded rounds. A call that has returned
/// has placed its bytes, so nothing is ever outstanding, and the peer has no part in it: it may sleep.
///
/// Keys are words of the peer's card (RemoteKey::key), looked at before each call that writes and after each
/// that reads: memory that the peer has deregistered is refused, but for a deregistration while a call
/// writes. A refused chunk ends with Status::backend, as with a NIC; where the process has ended they end
/// with Status::remote_disconnect. Where its engine or its main thread has gone or the kernel forbids it,
/// they go to the other routes of their lane. Either way the path has failed. It has
/// not where they go there because the kernel keeps their memory from other processes, as with memfd_secret:
/// later rounds of that submission are better not offered to it (Submission::kept_from_rail).
class HostRail final : public HostPeerRail {
  public:
    static constexpr std::uint64_t bytes_per_round = std::uint64_t{1} << 20;
    /// While several take turns.
    static constexpr std::uint64_t bytes_per_turn = std::uint64_t{256} << 10;
    /// In one call; pieces side by side count once.
    static constexpr std::size_t pieces_per_call = 256;
    static constexpr std::size_t words_per_call = 8;

    /// `fabric_copies_alike`: by the same calls of the kernel, so that it gets at no more memory (shm).
    /// Throws Error{backend}.
    /// `ends_unseen`: over the fabric nobody hears that a peer's engine has ended (shm).
    explicit HostRail(bool fabric_copies_alike = false, bool ends_unseen = false)
        : HostPeerRail("host"), fabric_copies_alike_(fabric_copies_alike), ends_unseen_(ends_unseen) {}

    /// A word of our card, as its key, and the wished one if it is free; 0 where there is none left.
    RegisteredMemory register_memory(const MemoryRange& range) override;
    /// Of our card.
    [[nodiscard]] std::string address() const override { return card_->address(); }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return UINT32_MAX; }
    /// Or its engine has, where the fabric would not notice (shm).
    [[nodiscard]] bool has_ended(PeerAddress peer) const noexcept override;
    [[nodiscard]] bool reaches(PeerAddress peer) const noexcept override;
    /// Nothing comes but what is submitted.
    [[nodiscard]] bool needs_polling() const noexcept override { return false; }

  private:
    bool post_at_once(Submission& submission) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// Throws Error that says why the process behind the card's address cannot be reached.
    PeerAddress do_insert_peer(std::string_view address) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_remove_peer(PeerAddress peer) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return pending_.empty(); }

    bool carry(Submission& submission, std::uint64_t room) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void count_moved(Submission& submission, std::uint64_t bytes) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool fail(Submission& submission, int error) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    /// The engine that was met is not there any more, and the fabric would copy all the same, by the number
    /// of the process alone.
    [[nodiscard]] bool may_not_be_copied_to(int error) const noexcept;

    /// The next chunk's memory is there on both sides, and yet the kernel lets nobody else get at it.
    [[nodiscard]] bool is_kept_from_us(const Submission& submission) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    const bool fabric_copies_alike_, ends_unseen_;
    const std::shared_ptr<HostCard> card_ = std::make_shared<HostCard>();
    /// A peer's address is where it is. Peers may outlive the rail.
    std::vector<std::unique_ptr<HostProcess>> processes_ ABSL_GUARDED_BY(role_);
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
    std::uint64_t moved_ ABSL_GUARDED_BY(role_) = 0;  ///< bytes, ever
};

}  // namespace railyard
