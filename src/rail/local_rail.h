// A rail to ourselves: copies memory within the process.
#pragma once

#include "rail/pending_list.h"
#include "rail/rail.h"

namespace railyard {

/// Transfers to one's own agent. Copies a bounded piece per round, so that neither post() nor poll() of a
/// huge transfer blocks its caller for long. Of what was stopped, no further chunk is copied.
class LocalRail final : public Rail {
  public:
    static constexpr std::uint64_t bytes_per_round = std::uint64_t{4} << 20;
    static constexpr std::uint64_t chunk_size = std::uint64_t{1} << 20;

    LocalRail() : Rail("self") {}

    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return chunk_size; }
    /// Nothing comes but what is submitted.
    [[nodiscard]] bool needs_polling() const noexcept override { return false; }

  private:
    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return pending_.empty(); }

    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
};

}  // namespace railyard
