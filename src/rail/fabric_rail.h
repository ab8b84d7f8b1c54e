// A rail over one libfabric endpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/address_vector.h"
#include "fabric/completion_queue.h"
#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "fabric/info.h"
#include "rail/control_channel.h"
#include "rail/pending_list.h"
#include "rail/rail.h"

namespace railyard {

struct FabricRailConfig {
    bool blocking = false;               ///< a progress thread wants to wait for completions
    std::uint64_t give_up_after_ns = 0;  ///< a peer that takes nothing for so long is gone
};

class FabricRail final : public Rail {
  public:
    /// What one rail may have outstanding while it shares a striped transfer with others: enough to keep a
    /// fast NIC busy (some ten times what a 400 Gbit/s link has under way in 20 us is 1 MiB), little enough
    /// that a slow one does not sit on chunks.
    static constexpr std::uint32_t striped_operations = 64;
    static constexpr std::uint64_t striped_bytes = std::uint64_t{2} << 20;
    /// In any case, so that a transfer that comes later is not behind everything.
    static constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;
    /// Bytes that each of several transfers may post before it is the next one's turn.
    static constexpr std::int64_t turn_bytes = std::int64_t{256} << 10;

    /// Opens everything; throws Error{backend}. `sink` must outlive the rail.
    FabricRail(std::string name, const std::shared_ptr<const fabric::Device>& device, ControlSink& sink,
               FabricRailConfig config);
    /// Messages that are left end as canceled; operations in flight end without a word.
    ~FabricRail() override;

    RegisteredMemory register_memory(const MemoryRange& range) override;
    [[nodiscard]] bool reaches_gpu_memory() const noexcept override {
        return fabric_->endpoint.reaches_gpu_memory();
    }
    [[nodiscard]] std::string address() const override { return fabric_->endpoint.name(); }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override;
    [[nodiscard]] int wait_fd() const noexcept override { return fabric_->queue.wait_fd(); }

  private:
    friend struct FabricRailProbe;  // of the tests, which script the provider's answers

    struct Operation : fabric::OpContext {
        FabricRail* rail = nullptr;
        Submission* submission = nullptr;
        Operation* next = nullptr;
        std::uint32_t length = 0;
    };

    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view address) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_remove_peer(PeerAddress peer) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    bool post_pending() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    enum class Served { through, waits, rotate, full };
    static bool has_turn(Submission& submission, bool alone) noexcept;
    Served post_run(Submission& submission, BlockedSet& blocked, bool& posted) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    Served refused(Submission& submission, BlockedSet& blocked, const char* what) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    fabric::PostResult post_chunk(Submission& submission, bool more) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] bool may_take(const Lane& lane) const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void publish_load() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static void on_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept;

    /// What libfabric may still touch when the rail goes. Teardown runs upwards: the endpoint first.
    struct Opened {
        Opened(const std::shared_ptr<const fabric::Device>& device, const std::string& rail, bool blocking);
        std::vector<Operation> operations;
        fabric::Domain domain;
        fabric::CompletionQueue queue;
        fabric::AddressVector addresses;
        std::unique_ptr<ControlChannel> control;
        fabric::Endpoint endpoint;
    };

    const FabricRailConfig config_;
    const std::shared_ptr<Opened> fabric_;
    fabric::Endpoint& endpoint_;
    ControlChannel* control_ ABSL_PT_GUARDED_BY(role_);
    std::uint32_t rounds_ ABSL_GUARDED_BY(role_) = 0;
    Operation* free_operations_ ABSL_GUARDED_BY(role_) = nullptr;
    std::uint32_t outstanding_ ABSL_GUARDED_BY(role_) = 0;
    std::uint64_t outstanding_bytes_ ABSL_GUARDED_BY(role_) = 0;
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
};

}  // namespace railyard
