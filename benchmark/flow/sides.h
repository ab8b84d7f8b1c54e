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

#include "failure.h"
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

struct FlowBenchOptions {
    tools::flow::Options flow;  ///< provider, rails, ring, size of a grain
    std::string raw_provider;   ///< the engine's name of the provider
    unsigned targets = 1;
    double seconds = 5;
    unsigned slices = 45;
    bool latency = false;
    bool raw = true;
    unsigned raw_endpoints = 1;  ///< a side: 2, one to write from and one to be written to, as ours
    std::vector<std::pair<std::string, std::string>> target_environment;
};

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

/// A target, and initiators of which each has its own targets.
class FlowSide {
  public:
    FlowSide(const FlowBenchOptions& options, const GrainMemory& memory, unsigned initiators);

    [[nodiscard]] std::string info() const { return tools::flow::text_of(info_); }
    /// Returns when the target has answered.
    void add(unsigned initiator, const std::string& info);
    /// Sends the next grain of the ring. False: it is still on its way.
    bool transfer(unsigned initiator);
    /// True when nothing is left.
    bool progress(unsigned initiator);
    /// Until nothing is left.
    void settle(unsigned initiator);
    /// True when a grain has come.
    bool take();
    /// Grains that have come whole, ever.
    [[nodiscard]] std::uint64_t announced() const;

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

/// Grains written by hand, each to every peer, with immediate data.
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
    static std::size_t read(Peer& peer, RawRail& rail);

    std::vector<Peer> peers_;  // outlive the rails, which may still write to their contexts
    std::deque<RawRail> rails_;
};

}  // namespace railyard::bench
