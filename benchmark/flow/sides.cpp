#include "sides.h"

#include <algorithm>
#include <array>
#include <utility>

namespace railyard::bench {

namespace flow = tools::flow;
namespace {

template <class Grain>
flow::Regions regions_of(const FlowBenchOptions& options, Grain grain) {
    std::vector<ryf_region> list;
    for (std::uint32_t i = 0; i < options.flow.ring; ++i)
        list.push_back({grain(i), options.flow.grain_size, RYF_MEMORY_HOST, 0});
    ryf_regions* made = nullptr;
    flow::check(ryf_regions_create(list.data(), list.size(), &made), "make the list of regions");
    return flow::Regions(made);
}

}  // namespace

/// Pages that nobody has written to are all the same one, which is read from the cache: so all are.
GrainMemory::GrainMemory(const FlowBenchOptions& options)
    : ring_(options.flow.ring), memory_(2 * ring_, options.flow.grain_size) {
    const std::span<std::byte> all = whole();
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>(i >> 12);
}

std::span<std::byte> GrainMemory::whole() const noexcept {
    const std::byte* const last = memory_.grain(2 * ring_ - 1);
    return {memory_.grain(0), static_cast<std::size_t>(last - memory_.grain(0)) + memory_.grain_size()};
}

FlowSide::FlowSide(const FlowBenchOptions& options, const GrainMemory& memory, unsigned initiators)
    : ring_(options.flow.ring),
      instance_(flow::make_instance()),
      coming_(regions_of(options, [&](std::uint32_t i) { return memory.coming(i); })),
      leaving_(regions_of(options, [&](std::uint32_t i) { return memory.leaving(i); })),
      target_(flow::make_target(instance_)) {
    const ryf_config receiving = flow::config_of(options.flow, coming_);
    ryf_target_info* info = nullptr;
    flow::check_setup(ryf_target_setup(target_.get(), &receiving, &info), options.flow, instance_);
    info_.reset(info);
    const ryf_config sending = flow::config_of(options.flow, leaving_);
    for (unsigned i = 0; i < initiators; ++i) {
        senders_.push_back({flow::make_initiator(instance_)});
        flow::check_setup(ryf_initiator_setup(senders_.back().handle.get(), &sending), options.flow,
                          instance_);
    }
}

void FlowSide::add(unsigned initiator, const std::string& info) {
    ryf_target_info* parsed = nullptr;
    flow::check(ryf_target_info_from_string(info.c_str(), &parsed), "read a target info");
    const flow::TargetInfo owner(parsed);
    flow::check(ryf_initiator_add_target(senders_[initiator].handle.get(), parsed), "add a target");
    settle(initiator);
}

bool FlowSide::transfer(unsigned initiator) {
    Sender& sender = senders_[initiator];
    const ryf_status status = ryf_initiator_transfer_grain(sender.handle.get(), sender.next);
    if (status == RYF_ERR_NOT_READY) return false;
    flow::check(status, "send a grain");
    sender.next = (sender.next + 1) % ring_;
    return true;
}

bool FlowSide::progress(unsigned initiator) {
    const ryf_status status = ryf_initiator_make_progress(senders_[initiator].handle.get());
    if (status == RYF_ERR_NOT_READY) return false;
    flow::check(status, "send grains");
    return true;
}

void OurSide::settle(unsigned initiator) {
    until([&] { return progress(initiator); }, "grains do not get to their targets");
}

bool FlowSide::take() {
    ryf_grain grain{};
    const ryf_status status = ryf_target_try_new_grain(target_.get(), &grain);
    if (status == RYF_ERR_NOT_READY) return false;
    flow::check(status, "receive grains");
    return true;
}

std::uint64_t FlowSide::announced() const {
    std::array<ryf_source, 16> sources{};
    std::size_t count = sources.size();
    flow::check(ryf_target_sources(target_.get(), sources.data(), &count), "count grains");
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i)
        sum += sources[i].grains;
    return sum;
}

RawSide::RawSide(const FlowBenchOptions& options, const GrainMemory& memory, unsigned peers)
    : notified_(options.notified), peers_(peers) {
    const auto devices =
        fabric::discover(options.raw_provider, fabric::parse_device_filter(options.flow.interface));
    const RawNotice notice = notified_ ? RawNotice::message : RawNotice::immediate;
    for (Peer& peer : peers_) {
        peer.slots.resize(options.flow.ring);
        for (std::size_t i = 0; i < peer.slots.size(); ++i) {
            const auto index = static_cast<std::uint32_t>(i);
            peer.slots[i].local = memory.leaving(index);
            peer.slots[i].offset = static_cast<std::size_t>(memory.coming(index) - memory.whole().data());
            peer.slots[i].length = options.flow.grain_size;
            peer.slots[i].immediate = static_cast<std::uint32_t>(i);
        }
        const auto open = [&] {
            return &rails_.emplace_back(devices.front(), false, memory.whole(), notice);
        };
        peer.sending = open();
        peer.receiving = options.raw_endpoints > 1 ? open() : peer.sending;
    }
}

bool RawSide::transfer(unsigned index) {
    Peer& peer = peers_[index];
    Slot& slot = peer.slots[peer.next];
    if (slot.busy || peer.sending->credits() == 0 || !peer.sending->post(host::Op::write, slot, false)) {
        if (peer.sending != peer.receiving) read(peer, *peer.sending);
        return false;
    }
    slot.busy = true;
    ++peer.busy;
    if (++peer.next == peer.slots.size()) peer.next = 0;
    return true;
}

std::size_t RawSide::transfer_to_all() {
    const auto owed = [](const Peer& peer) { return peer.owed; };
    if (std::none_of(peers_.begin(), peers_.end(), owed)) {
        bool busy = false;
        for (Peer& peer : peers_) {
            if (!peer.slots[peer.next].busy) continue;
            busy = true;
            if (peer.sending != peer.receiving) read(peer, *peer.sending);
        }
        if (busy) return 0;
        for (Peer& peer : peers_)
            peer.owed = true;
    }
    std::size_t sent = 0;
    for (unsigned i = 0; i < peers_.size(); ++i) {
        if (!peers_[i].owed || !transfer(i)) continue;
        peers_[i].owed = false;
        ++sent;
    }
    return sent;
}

/// How many grains have come over the rail.
std::size_t RawSide::read(Peer& peer, RawRail& rail) const {
    RawRail::Ends ends;
    rail.poll_all(ends);
    for (std::size_t i = 0; i < ends.count; ++i) {
        Slot& slot = *static_cast<Slot*>(ends.ours[i]);
        if (notified_ && !std::exchange(slot.told, !slot.told)) {
            until([&] { return rail.post_message(slot); }, "there is no room for a message");
            continue;
        }
        slot.busy = false;
        --peer.busy;
    }
    return ends.arrived;
}

std::size_t RawSide::progress() {
    constexpr unsigned now_and_then = 64;
    std::size_t arrived = 0;
    for (Peer& peer : peers_) {
        arrived += read(peer, *peer.receiving);
        if (peer.sending != peer.receiving && (notified_ || ++peer.passes % now_and_then == 0))
            read(peer, *peer.sending);
    }
    return arrived;
}

void RawSide::settle() {
    const auto is_idle = [](const Peer& peer) { return peer.busy == 0; };
    const auto over = [&] {
        progress();
        return std::all_of(peers_.begin(), peers_.end(), is_idle);
    };
    until(over, "the plain loop's grains do not end");
}

}  // namespace railyard::bench
