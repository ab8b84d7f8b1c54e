// Both faces of one process of the flow benchmark: the flow API, and the plain loop over the same fabric.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench_options.h"
#include "failure.h"
#include "host/agent.h"
#include "raw_rail.h"
#include "tools/flow/flow_objects.h"

namespace railyard::bench {

using Clock = std::chrono::steady_clock;
/// Longest wait for anything to move.
inline constexpr std::chrono::seconds patience{30};
/// Calls `step` until it is true, for as long as there is patience; then `failure` is what it ends with.
template <class Step>
void until(Step step, const char* failure) {
    if (step()) return;
    const auto limit = Clock::now() + patience;
    while (!step()) {
        if (Clock::now() > limit) throw Failure(failure);
    }
}

/// Grains that leave, and those that come: the same for both faces, since no two pieces of memory are
/// equally fast.
class GrainMemory {
  public:
    explicit GrainMemory(const FlowBenchOptions& options);

    [[nodiscard]] std::byte* leaving(std::uint32_t index) const noexcept { return memory_.grain(index); }
    [[nodiscard]] std::byte* coming(std::uint32_t index) const noexcept {
        return memory_.grain(ring_ + index);
    }
    [[nodiscard]] std::span<std::byte> whole() const noexcept;

  private:
    const std::uint32_t ring_;
    tools::flow::RingMemory memory_;
};

/// What is compared with the plain loop.
class OurSide {
  public:
    virtual ~OurSide() = default;

    [[nodiscard]] virtual std::string info() const = 0;
    /// Returns when the target has answered.
    virtual void add(unsigned initiator, const std::string& info) = 0;
    /// Sends the next grain of the ring. False: it is still on its way.
    virtual bool transfer(unsigned initiator) = 0;
    /// True when nothing is left.
    virtual bool progress(unsigned initiator) = 0;
    /// Until nothing is left.
    void settle(unsigned initiator);
    /// True when a grain has come.
    virtual bool take() = 0;
    /// Grains that have come whole, ever.
    [[nodiscard]] virtual std::uint64_t announced() const = 0;
};

/// A target, and initiators of which each has its own targets.
class FlowSide final : public OurSide {
  public:
    FlowSide(const FlowBenchOptions& options, const GrainMemory& memory, unsigned initiators);

    [[nodiscard]] std::string info() const override { return tools::flow::text_of(info_); }
    void add(unsigned initiator, const std::string& info) override;
    bool transfer(unsigned initiator) override;
    bool progress(unsigned initiator) override;
    bool take() override;
    [[nodiscard]] std::uint64_t announced() const override;

  private:
    struct Sender {
        tools::flow::Initiator handle;
        std::uint32_t next = 0;
    };
    const std::uint32_t ring_;
    tools::flow::Instance instance_;
    tools::flow::Regions coming_, leaving_;
    tools::flow::Target target_;
    tools::flow::TargetInfo info_;
    std::vector<Sender> senders_;
};

/// Blocks written through the plugin, as a host's program does: each WRITE carries a notification.
class NotifiedSide final : public OurSide {
  public:
    NotifiedSide(const FlowBenchOptions& options, const GrainMemory& memory);

    [[nodiscard]] std::string info() const override;
    void add(unsigned initiator, const std::string& info) override;
    bool transfer(unsigned initiator) override;
    bool progress(unsigned initiator) override;
    bool take() override;
    [[nodiscard]] std::uint64_t announced() const override { return announced_; }

  private:
    struct Slot {
        host::Request request;
        bool busy = false;
    };
    /// True when it is over.
    static bool ended(Slot& slot);

    const FlowBenchOptions& options_;
    const GrainMemory& memory_;
    host::Agent agent_;
    std::vector<Slot> slots_;
    std::size_t next_ = 0;
    std::uint64_t announced_ = 0;
    std::uint64_t taken_ = 0;
};

/// Grains written by hand, each to every peer, with immediate data; or, where ours are notified, with a
/// message once they have ended: what comes first, the data or a message, nobody promises.
class RawSide {
  public:
    RawSide(const FlowBenchOptions& options, const GrainMemory& memory, unsigned peers);

    [[nodiscard]] const RawRemote& local(unsigned peer) const { return peers_[peer].receiving->local(); }
    void connect(unsigned peer, const RawRemote& remote) { peers_[peer].sending->connect(remote); }
    /// Sends the next grain of the ring to one of the peers. False: it is still on its way, or there is no
    /// room.
    bool transfer(unsigned peer);
    /// Sends the next grain of the ring to every peer, once all of them have what its memory held before;
    /// what finds no room is owed and sent by the next call. Returns the number of grains sent.
    std::size_t transfer_to_all();
    /// Reads what has come, and now and then what of ours has ended; returns how many grains have come.
    std::size_t progress();
    void settle();

  private:
    struct Slot : RawOperation {
        bool busy = false;
        bool told = false;  ///< its message is under way
    };
    struct Peer {
        std::vector<Slot> slots;
        std::size_t next = 0;
        std::size_t busy = 0;
        unsigned passes = 0;
        bool owed = false;  ///< the grain that others of transfer_to_all() have got
        RawRail* sending = nullptr;
        RawRail* receiving = nullptr;
    };
    std::size_t read(Peer& peer, RawRail& rail) const;

    const bool notified_;
    std::vector<Peer> peers_;  // outlive the rails, which may still write to their contexts
    std::deque<RawRail> rails_;
};

}  // namespace railyard::bench
