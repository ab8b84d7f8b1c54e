// Which rails carry which pieces of a transfer: lanes, chunks, routes and submissions.
#include <algorithm>

#include "engine/engine_impl.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// A transfer that stays on one rail chooses among so many; more would cost every handle for nothing.
constexpr std::size_t single_rail_candidates = 4;

/// Over sockets, blocks up to here are divided only where connections would be idle otherwise: a whole block
/// costs both sides fewer calls than its parts.
constexpr std::uint64_t undivided_bytes = std::uint64_t{4} << 20;

/// Makes a lane of the chunks; returns the index of its first route.
std::uint32_t append_chunks(Transfer& transfer, const Stripes& stripes) {
    const auto begin = static_cast<std::uint32_t>(transfer.chunks.size());
    transfer.chunks.insert(transfer.chunks.end(), stripes.chunks.begin(), stripes.chunks.end());
    transfer.total_bytes += stripes.total_bytes;
    Lane& lane =
        transfer.lanes.emplace_back(transfer, begin, static_cast<std::uint32_t>(transfer.chunks.size()));
    lane.striped = stripes.striped;
    lane.run_length = stripes.run_length;
    lane.share = stripes.share;
    lane.few = FabricRail::few_chunks_of(stripes.total_bytes / stripes.chunks.size());
    return static_cast<std::uint32_t>(transfer.routes.size());
}

/// Nothing for a region that no chunk of this rail touches.
void* descriptor_on(const Registration& region, std::uint16_t rail) {
    const std::size_t at = position(region.rails, rail);
    return at < region.rails.size() ? region.memory[at].descriptor : nullptr;
}

Route to_host(Rail& rail, PeerEndpoint& there) {
    Route route;
    route.rail = &rail;
    route.destination = there.address;
    route.path = &there.path;
    return route;
}

/// `first`: what carries all of it while it can.
void add_single_lane(Transfer& transfer, const Stripes& stripes, Route route,
                     std::optional<Route> first = std::nullopt) {
    if (stripes.chunks.empty()) return;
    const std::uint32_t first_route = append_chunks(transfer, stripes);
    if (first) transfer.routes.push_back(std::move(*first));
    transfer.routes.push_back(std::move(route));
    transfer.lane_routes.push_back(
        {first_route, static_cast<std::uint32_t>(transfer.routes.size()), first.has_value()});
}

}  // namespace

/// How some pieces of a transfer travel.
struct Engine::Impl::Way {
    GpuPath* gpu = nullptr;      ///< whose staging buffers, or, towards ourselves, whose copies
    bool forwarded = false;      ///< the peer moves the bytes
    GpuPath* copies = nullptr;   ///< whose copies get to the peer's GPU memory, as long as they do
    bool threads_reach = false;  ///< of copies by a GPU: its threads may touch all of it
    bool stays_mapped = true;    ///< of a staged one: so they may
    bool operator==(const Way&) const = default;
};

/// Memories of a transfer that are not simply on rails, sorted out once.
struct Engine::Impl::Layout {
    Transfer& transfer;
    bool serving = false;

    [[nodiscard]] StagingPath& staging_of(GpuPath& gpu) const { return serving ? gpu.serving() : gpu.own(); }
    [[nodiscard]] Way way_of(const Piece& piece) const {
        const Registration& local = *transfer.locals[piece.local_region];
        const RemoteRegion& remote = *transfer.remotes[piece.remote_region];
        if (!transfer.peer)
            return {local.gpu ? local.gpu : remote.self->gpu, false, nullptr,
                    reach_each_other(local, remote)};
        GpuPath* const copies = copies_for(local, remote);
        return {local.staged ? local.gpu : nullptr, remote.staged, copies,
                copies && threads_reach(local, remote), !(local.staged && local.may_be_unmapped)};
    }
    /// From GPU to GPU on one host.
    [[nodiscard]] GpuPath* copies_for(const Registration& local, const RemoteRegion& remote) const {
        if (!local.gpu || !remote.share || local.length == 0) return nullptr;
        const PeerEndpoint* const there = transfer.peer->on_this_host();
        const bool reached = there && !there->path.failed() &&
                             HostPeerRail::process_at(there->address).vouches_for(remote.token);
        return reached && map(remote, *local.gpu) ? local.gpu : nullptr;
    }
    /// What another process shares is mapped for our GPU's threads, too.
    [[nodiscard]] bool threads_reach(const Registration& local, const RemoteRegion& remote) const {
        return !local.may_be_unmapped && (!is_own_process() || remote.device_id == local.device_id);
    }
    [[nodiscard]] static bool reach_each_other(const Registration& local, const RemoteRegion& remote) {
        return local.gpu == remote.self->gpu && !local.may_be_unmapped && !remote.self->may_be_unmapped;
    }
    [[nodiscard]] bool is_own_process() const {
        return HostPeerRail::process_at(transfer.peer->on_this_host()->address).is_own();
    }
    [[nodiscard]] std::optional<RemoteShare::Mapped> map(const RemoteRegion& region, GpuPath& gpu) const {
        if (!region.share) return std::nullopt;
        return region.share->map_for(gpu, is_own_process(), transfer.peer->agent());
    }
    [[nodiscard]] std::optional<Route> copy_route(Way way) const {
        if (!way.copies) return std::nullopt;
        Route route = to_host(way.copies->copies(), *transfer.peer->on_this_host());
        route.threads_reach = way.threads_reach;
        for (const auto& region : transfer.remotes)
            route.keys.push_back(copy_key(*region, *way.copies));
        return route;
    }
    /// One that nobody vouches for, where it is not mapped (any more).
    [[nodiscard]] RemoteKey copy_key(const RemoteRegion& region, GpuPath& gpu) const {
        const std::optional<RemoteShare::Mapped> mapped = map(region, gpu);
        if (!mapped) return {};
        if (mapped->import) transfer.mapped.push_front(mapped->import);
        return {region.token, 0 - mapped->offset};
    }

    [[nodiscard]] bool plain() const {
        const auto of_gpu = [](const auto& region) { return region->gpu || region->staged; };
        const auto unreachable = [](const auto& region) {
            return region->staged || region->needs_flush || (region->self && region->self->gpu);
        };
        return std::none_of(transfer.locals.begin(), transfer.locals.end(), of_gpu) &&
               std::none_of(transfer.remotes.begin(), transfer.remotes.end(), unreachable);
    }
};

void Engine::Impl::lay_out(Transfer& transfer, std::span<const Piece> pieces, bool serving) {
    const Layout layout{transfer, serving};
    if (layout.plain()) {
        add_lanes(layout, pieces, {});
    } else {
        std::vector<std::pair<Way, std::vector<Piece>>> groups;
        const Piece* last = nullptr;
        Way way;
        for (const Piece& piece : pieces) {
            // Neighbours mostly share their regions.
            if (!last || last->local_region != piece.local_region ||
                last->remote_region != piece.remote_region)
                way = layout.way_of(piece);
            last = &piece;
            auto group = std::find_if(groups.begin(), groups.end(),
                                      [&](const auto& known) { return known.first == way; });
            if (group == groups.end()) group = groups.insert(groups.end(), {way, {}});
            group->second.push_back(piece);
        }
        for (const auto& [common, some] : groups)
            add_lanes(layout, some, common);
        note_gpus(transfer);
    }
    transfer.submissions.resize(transfer.routes.size());
    for (std::size_t lane = 0; lane < transfer.lanes.size(); ++lane) {
        const Transfer::RouteRange range = transfer.lane_routes[lane];
        for (std::uint32_t i = range.begin; i < range.end; ++i) {
            transfer.submissions[i].lane = &transfer.lanes[lane];
            transfer.submissions[i].route = &transfer.routes[i];
            transfer.submissions[i].alternatives = {transfer.routes.data() + range.begin,
                                                    range.end - range.begin};
        }
    }
}

void Engine::Impl::add_lanes(const Layout& layout, std::span<const Piece> pieces, Way way) {
    Transfer& transfer = layout.transfer;
    Route route;
    if (!transfer.peer) {
        route.rail = way.gpu ? static_cast<Rail*>(&way.gpu->copies()) : &rails_->local();
        route.threads_reach = way.threads_reach;
        add_single_lane(transfer, stripe(pieces, {1, 0, 0, route.rail->max_chunk()}), std::move(route));
        return;
    }
    if (way.gpu) route.rail = &layout.staging_of(*way.gpu).rail();
    if (way.forwarded) {
        Route forward = forward_route(layout, way);
        const std::uint64_t most = way.gpu ? route.rail->max_chunk() : ForwardRail::chunk_size;
        if (!way.gpu) {
            route = std::move(forward);
        } else {
            route.threads_reach = way.stays_mapped;
            route.carriers.push_back(std::move(forward));
        }
        add_single_lane(transfer, stripe(pieces, {1, 0, 0, most}), std::move(route), layout.copy_route(way));
        return;
    }
    std::vector<const RailSet*> locals, remotes;
    for (const auto& region : transfer.locals)
        locals.push_back(&(region->staged ? *layout.staging_of(*region->gpu).memory() : *region).rails);
    for (const auto& region : transfer.remotes)
        remotes.push_back(&region->rails);
    StripeRules rules = rails_->rules();
    if (way.gpu) {
        rules.threshold = UINT64_MAX;  // each buffer goes to the rail that has the least to do
        rules.max_chunk = std::min(rules.max_chunk, route.rail->max_chunk());
    }
    const std::vector<LanePlan> plans = plan_lanes(pieces, locals, remotes, rules);
    transfer.lanes.reserve(transfer.lanes.size() + plans.size());
    for (const LanePlan& plan : plans) {
        if (!way.gpu) {
            add_direct_lane(layout, plan, way);
            continue;
        }
        Route staged;
        staged.rail = route.rail;
        staged.threads_reach = way.stays_mapped;
        staged.carriers = direct_routes(layout, plan, way, plan.rails.size());
        add_single_lane(transfer, plan.stripes, std::move(staged), layout.copy_route(way));
    }
}

void Engine::Impl::add_direct_lane(const Layout& layout, const LanePlan& plan, Way way) {
    Transfer& transfer = layout.transfer;
    const std::uint32_t first_route = append_chunks(transfer, plan.stripes);
    if (plan.stripes.striped) note_undivided(transfer.lanes.back(), plan.stripes.total_bytes);
    const std::size_t rails = plan.rails.size();
    const std::size_t count = plan.stripes.striped ? rails : std::min(rails, single_rail_candidates);
    std::optional<Route> by_host =
        way.copies ? layout.copy_route(way) : host_route(transfer, plan.stripes.total_bytes);
    if (by_host) transfer.routes.push_back(std::move(*by_host));
    for (Route& route : direct_routes(layout, plan, {}, count))
        transfer.routes.push_back(std::move(route));
    transfer.lane_routes.push_back(
        {first_route, static_cast<std::uint32_t>(transfer.routes.size()), by_host.has_value()});
}

/// Not where somebody has said how long an operation is, nor where one could not carry all of it.
void Engine::Impl::note_undivided(Lane& lane, std::uint64_t bytes) const noexcept {
    const StripeRules& rules = rails_->rules();
    if (rails_->connects() && !rules.chunk_size && bytes <= std::min(undivided_bytes, rules.max_chunk))
        lane.undivided_from = bytes / 2;
}

/// Where the peer is on this host, all of the memory is the hosts', and so many bytes do better so.
std::optional<Route> Engine::Impl::host_route(const Transfer& transfer, std::uint64_t bytes) {
    if (!rails_->host() || !rails_->host_is_better(bytes)) return std::nullopt;
    const auto in_gpu = [](const auto& region) { return region->gpu != nullptr; };
    const auto unknown = [](const auto& region) { return region->host_key() == 0 && region->length != 0; };
    if (std::any_of(transfer.locals.begin(), transfer.locals.end(), in_gpu) ||
        std::any_of(transfer.remotes.begin(), transfer.remotes.end(), unknown))
        return std::nullopt;
    PeerEndpoint* const there = transfer.peer->on_this_host();
    if (!there || !HostPeerRail::process_at(there->address).may_copy()) return std::nullopt;
    Route route = to_host(*there->rail, *there);
    for (const auto& region : transfer.remotes)
        route.keys.push_back({region->host_key(), 0});
    return route;
}

/// Over `count` of the plan's pairs of rails. Staged memory is its staging buffers there.
std::vector<Route> Engine::Impl::direct_routes(const Layout& layout, const LanePlan& plan, Way way,
                                               std::size_t count) {
    const Transfer& transfer = layout.transfer;
    std::vector<Route> routes(count);
    const std::size_t home = next_transfer_.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
        const RailPair pair = plan.rails[(home + i) % plan.rails.size()];
        PeerEndpoint& endpoint = transfer.peer->resolve(pair);
        Route& route = routes[i];
        route.rail = &rails_->rail(pair.local);
        route.destination = endpoint.address;
        route.path = &endpoint.path;
        route.gated = rails_->needs_introduction();
        route.remote_rail = pair.remote;
        if (way.gpu) {
            route.descriptors.push_back(descriptor_on(*layout.staging_of(*way.gpu).memory(), pair.local));
        } else {
            for (const auto& region : transfer.locals)
                route.descriptors.push_back(descriptor_on(*region, pair.local));
        }
        for (const auto& region : transfer.remotes)
            route.keys.push_back(region->key_on(pair.remote));
    }
    return routes;
}

Route Engine::Impl::forward_route(const Layout& layout, Way way) {
    Transfer& transfer = layout.transfer;
    auto forwarding = std::make_unique<Forwarding>();
    if (way.gpu) {
        StagingPath& staging = layout.staging_of(*way.gpu);
        rails_->lend(staging);
        forwarding->lender = &staging;
    } else {
        forwarding->locals = transfer.locals;
    }
    forwarding->remotes = transfer.remotes;
    return route_by_request(transfer, std::move(forwarding));
}

/// To the peer's engine itself, which has to know our addresses for it.
Route Engine::Impl::route_by_request(Transfer& transfer, std::unique_ptr<Forwarding> forwarding) {
    transfer.peer->require_introduction();
    forwarding->peer = transfer.peer;
    forwarding->transfer = &transfer;
    Route route;
    route.rail = &forward_;
    route.path = &transfer.peer->resolve(control_pair).path;
    route.gated = true;
    route.forwarding = forwarding.get();
    transfer.forwardings.push_back(std::move(forwarding));
    return route;
}

/// Others in the place of `transfer.locals`, by the same rails.
void Engine::Impl::lay_out_anew(Transfer& transfer,
                                std::span<const std::shared_ptr<Registration>> locals) noexcept {
    for (Route& route : transfer.routes) {
        for (std::uint16_t rail = 0; rail < rails_->size(); ++rail) {
            if (route.rail != &rails_->rail(rail)) continue;
            for (std::size_t i = 0; i < route.descriptors.size(); ++i) {
                if (locals[i] != transfer.locals[i]) route.descriptors[i] = descriptor_on(*locals[i], rail);
            }
        }
    }
    for (const auto& forwarding : transfer.forwardings) {
        for (auto& known : forwarding->locals) {
            const auto old = std::find(transfer.locals.begin(), transfer.locals.end(), known);
            if (old != transfer.locals.end())
                known = locals[static_cast<std::size_t>(old - transfer.locals.begin())];
        }
    }
}

/// Whose GPUs have to be told, on either side, before they see the data.
void Engine::Impl::note_gpus(Transfer& transfer) {
    if (!transfer.peer) return;
    if (transfer.kind == Work::Kind::read) {
        for (const auto& region : transfer.locals) {
            if (!region->gpu || region->staged || region->length == 0) continue;
            Gpu* const gpu = &region->gpu->gpu();
            if (gpu->visibility() == cuda::Visibility::at_once) continue;
            if (std::find(transfer.late_gpus.begin(), transfer.late_gpus.end(), gpu) ==
                transfer.late_gpus.end())
                transfer.late_gpus.push_back(gpu);
        }
        return;
    }
    auto forwarding = std::make_unique<Forwarding>();
    for (const auto& region : transfer.remotes) {
        if (region->needs_flush) forwarding->remotes.push_back(region);
    }
    if (forwarding->remotes.empty()) return;
    forwarding->flush = true;
    transfer.remote_flush =
        std::make_unique<RemoteFlush>(transfer, route_by_request(transfer, std::move(forwarding)));
}

}  // namespace railyard
