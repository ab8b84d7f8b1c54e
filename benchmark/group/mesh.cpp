#include "group/mesh.h"

#include <sched.h>

#include "agent_side.h"
#include "common/clock.h"
#include "failure.h"
#include "group/pattern.h"
#include "slice.h"

namespace railyard::bench {

namespace {

std::string agent_name(unsigned rank) {
    return "rank-" + std::to_string(rank);
}

}  // namespace

Mesh::Mesh(const Options& options, unsigned rank, std::uint64_t length)
    : options_(options), rank_(rank), agent_(agent_config(options, agent_name(rank))) {
    const GroupOptions& group = options.group;
    for (unsigned target : targets_of(group.pattern, rank, group.world))
        outgoing_.push_back(std::make_unique<Slice>(target, options.mem, length));
    for (unsigned initiator : initiators_of(group.pattern, rank, group.world))
        incoming_.push_back(std::make_unique<Slice>(initiator, options.target_mem, length));
    for (const Slices* slices : {&outgoing_, &incoming_})
        for (const auto& slice : *slices)
            agent_.register_memory(slice->memory.range());
}

Message Mesh::introduction() const {
    const std::string metadata = agent_.metadata();
    Message slices = Message::object();
    for (const auto& slice : incoming_) {
        const host::Range range = slice->memory.range();
        slices[std::to_string(slice->other)] = {range.address, range.length, range.device};
    }
    return {{"metadata", Message::binary({metadata.begin(), metadata.end()})}, {"slices", slices}};
}

void Mesh::join(const std::vector<Message>& introductions) {
    std::vector<std::string> peers(introductions.size());
    for (const Slices* slices : {&outgoing_, &incoming_}) {
        for (const auto& slice : *slices) {
            std::string& peer = peers[slice->other];
            if (peer.empty()) {
                const auto& metadata = introductions[slice->other].at("metadata").get_binary();
                peer = agent_.load_peer({reinterpret_cast<const char*>(metadata.data()), metadata.size()});
            }
            slice->peer = peer;
        }
    }
    for (const auto& slice : outgoing_) {
        const Message& there = introductions[slice->other].at("slices").at(std::to_string(rank_));
        slice->remote = {there.at(0).get<std::uint64_t>(), there.at(1).get<std::uint64_t>(),
                         there.at(2).get<std::uint64_t>()};
    }
}

void Mesh::connect() {
    for (const auto& slice : outgoing_)
        agent_.connect(slice->peer);
}

void Mesh::prepare(const Point& point) {
    const Layout& layout = point.layout;
    ring_.release();
    std::vector<host::Request> requests;
    requests.reserve(std::size_t{layout.window} * targets());
    std::vector<host::Range> local(layout.batch), remote(layout.batch);
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        for (const auto& slice : outgoing_) {
            const host::Range here = slice->memory.range();
            for (unsigned block = 0; block < layout.batch; ++block) {
                const std::uint64_t offset = layout.offset(slot, block);
                local[block] = {here.address + offset, layout.size, here.device};
                remote[block] = {slice->remote.address + offset, layout.size, slice->remote.device};
            }
            std::optional<std::string> notification;
            if (point.notify) notification = notification_text(point.index, slot);
            requests.push_back(agent_.prepare(point.op, local, remote, slice->peer, notification));
        }
    }
    ring_.reset(std::move(requests), options_.corrupt == Corrupt::reposts);
}

std::optional<unsigned> Mesh::oldest_target() const {
    const unsigned* slot = ring_.oldest();
    return slot ? std::optional(target_of(*slot)) : std::nullopt;
}

void Mesh::fill(const Point& point, std::uint64_t seed) {
    const bool write = point.op == host::Op::write;
    for (const auto& slice : outgoing_) {
        const std::uint64_t own = seed_of(seed, rank_, slice->other);
        write ? slice->memory.fill_source(point.layout, own)
              : slice->memory.scrub_destination(point.layout, own);
    }
    for (const auto& slice : incoming_) {
        const std::uint64_t own = seed_of(seed, slice->other, rank_);
        write ? slice->memory.scrub_destination(point.layout, own)
              : slice->memory.fill_source(point.layout, own);
    }
}

std::string Mesh::check(const Point& point, std::uint64_t seed) {
    const bool write = point.op == host::Op::write;
    for (const auto& slice : write ? incoming_ : outgoing_) {
        const std::uint64_t own =
            write ? seed_of(seed, slice->other, rank_) : seed_of(seed, rank_, slice->other);
        const auto wrong = slice->memory.check_destination(point.layout, own, options_.corrupt);
        if (wrong) {
            return "what rank " + std::to_string(rank_) + (write ? " has from rank " : " read from rank ") +
                   std::to_string(slice->other) + ": " + *wrong;
        }
    }
    return "";
}

void Mesh::expect(const Point& point, std::optional<std::uint64_t> seed) {
    expected_ = point;
    arrival_seed_ = point.op == host::Op::write ? seed : std::nullopt;
    arrival_wrong_.clear();
    stranger_.clear();
    for (const auto& slice : incoming_)
        slice->notifications.begin(slice->peer, point.index, point.layout.window);
}

void Mesh::serve() {
    for (const auto& [sender, message] : agent_.notifications()) {
        Slice* from = nullptr;
        for (const auto& slice : incoming_) {
            if (slice->peer == sender) from = slice.get();
        }
        if (from == nullptr) {
            stranger_ = "unexpected notification from '" + sender.substr(0, 100) + "'";
            continue;
        }
        const auto slot = from->notifications.take(sender, message);
        if (!slot || !arrival_seed_ || !arrival_wrong_.empty()) continue;
        const std::uint64_t own = seed_of(*arrival_seed_, from->other, rank_);
        const auto wrong = from->memory.check_slot(expected_.layout, own, *slot);
        if (wrong)
            arrival_wrong_ =
                "data of rank " + std::to_string(from->other) + " behind its notification: " + *wrong;
    }
}

Message Mesh::posts(const std::vector<std::uint64_t>& of_slots) const {
    Message all = Message::object();
    for (std::size_t target = 0; target < outgoing_.size(); ++target) {
        std::vector<std::uint64_t> counts;
        for (std::size_t slot = target; slot < of_slots.size(); slot += outgoing_.size())
            counts.push_back(of_slots[slot]);
        all[std::to_string(outgoing_[target]->other)] = counts;
    }
    return all;
}

std::uint64_t Mesh::received() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& slice : incoming_)
        sum += slice->notifications.received();
    return sum;
}

std::string Mesh::account(const std::vector<Message>& posts, std::chrono::milliseconds patience) {
    constexpr std::uint64_t moment = 2'000'000;  // in which one too many may still come
    const auto limit = static_cast<std::uint64_t>(patience.count()) * 1'000'000u;
    std::vector<std::vector<std::uint64_t>> counts;
    std::uint64_t wanted = 0;
    for (const auto& slice : incoming_) {
        counts.push_back(posts[slice->other].value(std::to_string(rank_), std::vector<std::uint64_t>{}));
        for (std::uint64_t count : counts.back())
            wanted += count;
    }
    std::uint64_t last = now_ns();
    std::uint64_t seen = received();
    for (std::uint64_t now = last; now - last < (seen >= wanted ? moment : limit); now = now_ns()) {
        serve();
        if (received() == seen) {
            sched_yield();
            continue;
        }
        seen = received();
        last = now;
    }
    if (!arrival_wrong_.empty()) return arrival_wrong_;
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
        const auto wrong = incoming_[i]->notifications.wrong(counts[i]);
        if (wrong) return "from rank " + std::to_string(incoming_[i]->other) + ": " + *wrong;
    }
    return stranger_;
}

/// Every pair of ranks has contents of its own.
std::uint64_t Mesh::seed_of(std::uint64_t seed, unsigned initiator, unsigned target) const noexcept {
    return seed ^ std::uint64_t{initiator} << 52 ^ std::uint64_t{target} << 40;
}

}  // namespace railyard::bench
