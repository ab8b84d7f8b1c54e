// The transfer engine: memory, peers, transfers and notifications of one agent, over all of its rails.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fork_watch.h"
#include "common/memory_range.h"
#include "common/params.h"
#include "common/status.h"
#include "engine/peer_report.h"
#include "rail/rail_counters.h"

namespace railyard {

class Registration;  // local memory, registered on the rails (manager/registration.h)
class RemoteRegion;  // a peer's registered memory (manager/remote_region.h)
class Transfer;      // request handle (engine/transfer.h)
class Gpus;          // of this engine (manager/gpus.h)
namespace fabric {
class ImmediateSink;  // hears of peers' immediate data (fabric/op_context.h)
}
class StartControl;  // decides when a posted transfer starts (engine/start_control.h)

enum class Operation : std::uint8_t { read, write };

/// One local piece of a transfer: `length` bytes at `address`, all inside `region`.
struct LocalDescriptor {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const std::shared_ptr<Registration>* region = nullptr;
};

/// One remote piece: the same, inside a region that the peer published.
struct RemoteDescriptor {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const std::shared_ptr<RemoteRegion>* region = nullptr;
};

struct EngineConfig {
    std::string agent_name;
    Params params;
    bool progress_thread = true;
    /// Pause of the progress thread between two passes while there is nothing to block on; 0: chosen by the
    /// engine.
    std::chrono::microseconds progress_delay{0};
    /// Of all instances that have introduced themselves and were not loaded: rails, and pairs of rails that
    /// they have named. Past it the one that was not heard for longest is forgotten.
    std::size_t most_stranger_pairs = 4'194'304;
};

/// What a transfer is expected to take, from transfers measured so far by this engine.
struct CostEstimate {
    std::chrono::microseconds duration{0};
    std::chrono::microseconds error_margin{0};
    bool measured =
        false;  ///< false: nothing measured yet, duration is a guess from the rails' nominal speed
};

struct Notification {
    std::string agent;
    std::string message;
};

/// Something that wants to be looked after along with the rails.
class EngineChore {
  public:
    virtual bool run() noexcept = 0;

  protected:
    ~EngineChore() = default;
};

/// Engines are independent of each other; every method may be called from any thread, several at once. Of one
/// transfer that goes for poll and look, and for what only reads it: they hear the same of a round. It is
/// posted, released or changed while no other call for it is under way.
/// Methods that throw throw Error only (and std::bad_alloc). None waits for a peer without a limit.
/// An engine belongs to the process that made it. In a forked child every call is refused with
/// Status::not_allowed, and the destructor leaves all as it is: rails, threads and memory are the parent's.
class Engine {
  public:
    /// Opens every usable rail. Throws Error{backend} naming what was found when there is none.
    explicit Engine(EngineConfig config);
    /// Sends what is queued (bounded), ends the progress thread, completes nothing: handles must not be used
    /// again.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// False in a child that the engine was inherited by. Any thread.
    [[nodiscard]] bool own_process() const noexcept { return generation_ == fork_generation(); }
    /// Throws Error{not_allowed} where own_process() is false.
    void require_own_process() const;

    [[nodiscard]] const std::string& agent_name() const noexcept;
    [[nodiscard]] std::size_t rail_count() const noexcept;
    /// What each rail has done so far. Waits for their roles.
    [[nodiscard]] std::vector<RailCounters> rail_counters() const;
    /// Provider name of the rails as libfabric gives it, for messages and metadata.
    [[nodiscard]] const std::string& provider() const noexcept;
    [[nodiscard]] const Params& params() const noexcept;
    [[nodiscard]] Gpus& gpus() noexcept;

    // Memory

    /// Registers [address, address + length) on every rail near it, or on none. Overlapping and zero-length
    /// ranges are fine; read-only host memory may be the source of a WRITE or the target of a peer's READ.
    /// `device_id` of device memory is the CUDA ordinal of its GPU; what is not whole inside one allocation
    /// of that GPU is refused (Error{invalid_param}), managed memory, too (Error{not_supported}).
    std::shared_ptr<Registration> register_memory(std::uint64_t address, std::uint64_t length,
                                                  std::uint64_t device_id,
                                                  MemoryType type = MemoryType::host);
    /// True where there is a CUDA driver with a GPU that may be used.
    [[nodiscard]] bool has_gpus() const noexcept;
    /// True where device memory can be registered: on rails that reach it, or with staging allowed.
    [[nodiscard]] bool takes_gpu_memory() const noexcept;
    /// Revokes the registration. Waits (bounded) for transfers in flight on it; Error{not_allowed} if they do
    /// not end: no other may use it then, the network does until they have, and it is deregistered after
    /// that, whether this is called again or not. A later call waits again, or finds that done. Handles
    /// prepared on it go on with the latest other registration of all of the same memory, if there is one at
    /// their post; else that answers invalid_param.
    void deregister_memory(const std::shared_ptr<Registration>& region);
    /// The blob a peer loads with load_remote_memory.
    [[nodiscard]] std::string memory_metadata(const Registration& region) const;
    /// Refuses (Error{mismatch}) what is damaged, of another version or provider, stale, or does not cover
    /// [address, address + length).
    std::shared_ptr<RemoteRegion> load_remote_memory(const std::string& agent, std::string_view metadata,
                                                     std::uint64_t address, std::uint64_t length);
    /// Our own memory as the target of a transfer to ourselves.
    std::shared_ptr<RemoteRegion> local_as_remote(const std::shared_ptr<Registration>& region);

    // Peers

    [[nodiscard]] std::string connection_info() const;
    /// Makes `agent` known; replaces an older instance of it. Does not wait for the peer.
    void load_connection_info(const std::string& agent, std::string_view info);
    /// Resolves the peer's addresses on our rails. Error{not_found} for an agent that was never loaded.
    void connect(const std::string& agent);
    /// Forgets the peer; its transfers in flight end with remote_disconnect or complete, later posts are
    /// refused. What it sends is taken as of one that was never loaded.
    void disconnect(const std::string& agent);
    /// Every peer that is known, by name.
    [[nodiscard]] std::vector<PeerReport> peers() const;

    // Transfers

    /// Validates everything and plans the transfer. The handle may be posted any number of times, one after
    /// the other. `notification`, when given, is the default message of every post.
    Transfer* prepare(Operation operation, std::span<const LocalDescriptor> local,
                      std::span<const RemoteDescriptor> remote, const std::string& agent,
                      std::optional<std::string_view> notification);
    /// Starts the transfer: in_progress, or ok / an error when it ended at once. `notification` replaces the
    /// message of the handle for this and later posts. Does not wait; allocates nothing in steady state.
    Status post(Transfer& transfer, const std::string* notification = nullptr) noexcept;
    /// The same of a handle that has no message any more, in this and later posts.
    Status post_without_notification(Transfer& transfer) noexcept;
    /// in_progress, ok (every byte is placed at the target, for READ here) or the first error. Never blocks.
    Status poll(Transfer& transfer) noexcept;
    /// The same, for who has just made a pass: makes none.
    Status look(Transfer& transfer) noexcept;
    /// Ends the handle's life. In flight, it is canceled: that waits up to 0.25 s (fabric efa: 1.1 s) for
    /// what is under way to end or to be interrupted, after which the network touches the transfer's memory
    /// no more. (What cannot be interrupted, docs/reliability.md, "Nothing late", and has not ended by then
    /// keeps the handle with the engine until it has.)
    void release(Transfer* transfer) noexcept;
    /// The same of several: what is in flight is waited for together, so long in all. NULL is fine.
    void release(std::span<Transfer* const> transfers) noexcept;
    /// True once its peer was found to have ended.
    [[nodiscard]] bool peer_is_gone(const Transfer& transfer) const noexcept;
    CostEstimate estimate(const Transfer& transfer) const noexcept;

    /// Makes later posts of a WRITE carry immediate data: descriptor i brings `first` + i to the peer's sink
    /// when its bytes are in place; more than once where a rail fails under it. `first` may be changed
    /// between rounds. False where nothing has been changed: descriptors do not travel as one piece each over
    /// rails that have immediate data (too long, staged, to ourselves). While the transfer is not in flight.
    bool carry_immediates(Transfer& transfer, std::size_t descriptors, std::uint32_t first) noexcept;
    /// Who hears of the immediate data of peers' writes from now on, for good; it outlives the engine.
    void hear_immediates(fabric::ImmediateSink& sink) noexcept;

    /// Lets `control` decide when later posts of the transfer start. Both while the transfer is not in
    /// flight; the control must outlive it.
    void control_start(Transfer& transfer, StartControl& control) noexcept;
    /// Starts a transfer that a StartControl holds. Any thread, once per hold.
    void start(Transfer& transfer) noexcept;
    /// Called in every pass over the rails, or in those that find notifications to take and after each look
    /// at peers (every 0.25 s at least), by whoever makes it, also several at once; true: there is something
    /// to do, so that the progress thread must not block. At most one, set before the first transfer, taken
    /// back (nullptr) after the last; taking it back waits for calls that are under way.
    enum class ChoreTime : std::uint8_t { always, notifications };
    void set_chore(EngineChore* chore, ChoreTime time = ChoreTime::always) noexcept;
    /// Of the one that there is; the chore itself may call it, too.
    void set_chore_time(ChoreTime time) noexcept;

    // Notifications

    /// Moves what has arrived to the end of `out`; sender and message are exact, each exactly once.
    void take_notifications(std::vector<Notification>& out);
    /// Makes progress where there is nothing to take yet, as take_notifications does. True: there is.
    bool look_for_notifications();
    /// True when there are any to take.
    [[nodiscard]] bool has_notifications() const noexcept;
    /// Queues a message of at most 16 MiB to `agent` (ourselves too). Error{not_found}, {invalid_param}.
    void send_notification(const std::string& agent, std::string_view message);

    /// One pass over all rails; true if anything happened. For engines without a progress thread, and for
    /// callers who look so often that the thread leaves the rails to them.
    bool progress() noexcept;
    /// Its two halves, for who wants to look at what has come before anything else is done: what the rails
    /// have, and all besides (messages, peers, memory that is to be freed), which must have its turn, too.
    bool progress_rails() noexcept;
    bool progress_rest() noexcept;
    /// Looks at each rail until nothing is left there, so that all that came before the call has been seen:
    /// for at most `limit_ns`, where ever more comes. Not with a rail's role held; from chores.
    void catch_up(std::uint64_t limit_ns) noexcept;

  private:
    class Impl;
    std::uint32_t generation_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace railyard
