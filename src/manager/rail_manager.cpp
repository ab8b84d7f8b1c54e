#include "manager/rail_manager.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/log.h"
#include "fabric/fi_log.h"
#include "fabric/info.h"
#include "manager/memory_probe.h"
#include "manager/parallel_registration.h"
#include "rail/fabric_rail.h"

namespace railyard {

RailManager::RailManager(const Params& params, bool blocking, ControlSink& sink,
                         std::filesystem::path rdma_devices)
    : gpus_(params),
      rdma_devices_(rdma_devices.empty() ? fabric::rdma_devices_of_kernel : std::move(rdma_devices)),
      vram_staging_(params.vram_staging),
      cuda_streams_(static_cast<unsigned>(params.cuda_streams)),
      copy_kernel_(params.copy_kernel == "auto"),
      known_ranges_(params.keep_keys != "off"),
      always_as_first_(params.keep_keys == "always") {
    if (params.libfabric_log == "on") fabric::route_libfabric_log();
    find_and_open(params, blocking, sink);
    // The two fabrics of EFA do not understand each other.
    const fabric::Device& first = *devices_.front();
    provider_ = first.provider == "efa" ? first.family : first.provider;
    needs_introduction_ = first.caps.needs_introduction;
    takes_senders_ = needs_introduction_ || first.caps.answers_at_sender;
    connects_ = first.caps.sends_into_sockets;
    waits_to_close_ = first.caps.waits_to_close;
    // shm copies within the processes; fabric efa may emulate writes, and looks at the key of a long one
    // once.
    withdraws_keys_ = !first.caps.shares_endpoints && !waits_to_close_;
    tell_of_refused_keys_ = first.caps.tells_of_refused_keys;
    renews_keys_ = tell_of_refused_keys_ && (always_as_first_ || (blocking && params.keep_keys == "auto"));
    no_nics_ = first.family == "shm" || first.family.starts_with("tcp");
    if (params.local_rail == "auto") open_host_rail(first);
    placement_ = std::make_unique<RailPlacement>(params, rail_devices_, control_rails_, std::move(machine_));
    rules_ = {rails_.size() - control_rails_, params.stripe_threshold, params.chunk_size, UINT32_MAX,
              connects_ ? Pairing::in_order : Pairing::spread};
    // Connections of one interface are equally fast, and an operation over them costs much.
    if (connects_ && devices_.size() == control_rails_ + 1) rules_.chunks_a_rail = 1;
    all_ = rail_range(rails_.size());
    for (const auto& rail : rails_)
        rules_.max_chunk = std::min(rules_.max_chunk, rail->max_chunk());
    for (const auto& gpu : gpus_.all()) {
        const std::string& pci = gpu->device().pci;
        gpu->set_node(placement_->node_of_gpu(pci));
        gpu_paths_.push_back(
            std::make_unique<GpuPath>(*gpu, placement_->for_gpu(pci), placement_->below_switch_of_gpu(pci)));
    }
    gpu_rails_.resize(gpu_paths_.size() * GpuPath::rail_count);
}

RailManager::~RailManager() {
    for (const auto& path : gpu_paths_) {
        for (const StagingPath* staging : {&path->own(), &path->serving()}) {
            if (staging->memory()) deregister_memory(*staging->memory());
            if (const auto lent = staging->lent()) deregister_memory(*lent);
        }
    }
}

/// auto goes on behind a family none of whose rails opens; a named provider is what was asked for.
void RailManager::find_and_open(const Params& params, bool blocking, ControlSink& sink) {
    find_devices(params, {});
    std::string all = "no rail could be opened";
    for (;;) {
        const std::vector<std::string> reasons = open(params, blocking, sink);
        if (rails_.size() > control_rails_) return;
        for (const std::string& reason : reasons)
            all += "; " + reason;
        if (params.provider != "auto") throw Error(Status::backend, all);
        const std::string family = devices_.front()->family;
        try {
            find_devices(params, family);
        } catch (const Error& error) {
            throw Error(error.status(), all + "; behind " + family + " auto finds: " + error.what());
        }
        RAILYARD_LOG(warn, "", "no rail of %s opens (%s): auto goes on to %s", family.c_str(),
                     reasons.front().c_str(), devices_.front()->family.c_str());
    }
}

/// In place of what has been found and opened before.
void RailManager::find_devices(const Params& params, std::string_view after) {
    const bool gpu_memory = gpus_.any() && params.vram_staging != "always";
    const fabric::DeviceFilter filter = fabric::parse_device_filter(params.devices);
    std::vector<fabric::Device> found =
        fabric::discover(params.provider, filter, gpu_memory, fabric::Absent::told, after, rdma_devices_);
    rails_.clear();
    rail_devices_.clear();
    devices_.clear();
    machine_.reset();
    control_rails_ = 0;
    const std::string& control = params.oob_interface;
    const std::string family = found.front().family;
    if (!control.empty() && !family.starts_with("tcp")) {
        RAILYARD_LOG(info, "",
                     "oob_interface %s has no effect: provider %s sends control messages over its own rails",
                     control.c_str(), found.front().provider.c_str());
    } else if (!control.empty()) {
        const auto same = std::find_if(found.begin(), found.end(),
                                       [&](const fabric::Device& device) { return device.name == control; });
        if (same != found.end()) {
            std::rotate(found.begin(), same, same + 1);
        } else {
            try {
                found.insert(found.begin(), std::move(fabric::discover(family, {{control}, false}).front()));
            } catch (const Error& error) {
                throw Error(error.status(), std::string("parameter oob_interface: ") + error.what());
            }
            control_rails_ = 1;
        }
    }
    for (fabric::Device& device : found)
        devices_.push_back(std::make_shared<const fabric::Device>(std::move(device)));
}

/// By the index of each among those that carry data. Reads the machine where that decides.
std::vector<std::size_t> RailManager::order_of_opening(const Params& params,
                                                       const topology::RailLimits& limits) {
    std::vector<const fabric::Device*> devices;
    for (std::size_t i = control_rails_; i < devices_.size(); ++i)
        devices.push_back(devices_[i].get());
    const std::vector<topology::RailDesc> rails = described(devices);
    if (limits.leave_a_choice(rails.size())) machine_ = machine_of(params, rails);
    const topology::Machine unknown;
    const topology::Machine& machine = machine_ ? *machine_ : unknown;
    return topology::rail_order(machine, rails, limits, topology::visible_gpus(machine, gpus_.places()));
}

/// Why those of `devices_` did not open that did not.
std::vector<std::string> RailManager::open(const Params& params, bool blocking, ControlSink& sink) {
    const std::size_t first = control_rails_, spread = devices_.size() - first;
    const topology::RailLimits limits{
        params.rails, fabric::rails_on_each(params.rails_per_device, spread, devices_.back()->caps),
        fabric::parse_device_filter(params.devices).orders()};
    const std::size_t limit = first + limits.most(spread);
    const FabricRailConfig config{blocking, params.connect_timeout_ms * 1'000'000, &changes_, limit > 1};
    const std::vector<std::size_t> order = order_of_opening(params, limits);
    std::vector<std::string> reasons;
    for (std::size_t i = 0; i < first + order.size() && rails_.size() < limit; ++i) {
        const auto& device = devices_[i < first ? i : first + order[i - first]];
        const std::string name = "rail" + std::to_string(rails_.size()) + ":" + device->name;
        try {
            rails_.push_back(std::make_unique<FabricRail>(name, device, sink, config));
            rail_devices_.push_back(device.get());
        } catch (const Error& error) {
            if (i < first) throw;
            RAILYARD_LOG(warn, name.c_str(), "skipped: %s", error.what());
            reasons.emplace_back(error.what());
        }
    }
    return reasons;
}

void RailManager::open_host_rail(const fabric::Device& first) {
    try {
        host_ = std::make_unique<HostRail>(first.caps.direct_rma, first.family == "shm");
    } catch (const Error& error) {
        RAILYARD_LOG(warn, "host", "peers on this host are reached over the fabric: %s", error.what());
    }
}

bool RailManager::tell_of_writes() const noexcept {
    return std::all_of(rails_.begin(), rails_.end(),
                       [](const auto& rail) { return rail->tells_of_writes(); });
}

std::vector<std::string> RailManager::addresses() const {
    std::vector<std::string> result;
    for (const auto& rail : rails_)
        result.push_back(rail->address());
    return result;
}

std::shared_ptr<Registration> RailManager::register_memory(std::uint64_t address, std::uint64_t length,
                                                           std::uint64_t device_id) {
    auto region = std::make_shared<Registration>();
    region->address = address;
    region->length = length;
    region->device_id = device_id;
    if (length == 0) return region;
    if (length > UINT64_MAX - address || !is_mapped(address, length)) {
        char range[64];
        std::snprintf(range, sizeof(range), "%llu bytes at %#llx", static_cast<unsigned long long>(length),
                      static_cast<unsigned long long>(address));
        throw Error(Status::invalid_param,
                    std::string("memory range of ") + range + " is not mapped in this process");
    }
    region->writable = is_writable(address, length);
    register_as_known(*region, {address, length, device_id, MemoryType::host, 0},
                      [&](KnownRange& known) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                          region->rails = placement_->for_host_memory(address, length, known.names.turn);
                          if (host_) region->on_host = register_on_host(*region, known);
                          region->memory = register_on_its_rails(*region, known);
                      });
    return region;
}

RegisteredMemory RailManager::register_on_host(const Registration& region, KnownRange& known) {
    std::uint64_t& word = known.names.word;
    for (const Registration* other = known.registered; other; other = other->earlier) {
        if (word != 0 && other->on_host.key == word) return other->on_host;
    }
    MemoryRange range{region.address, region.length};
    range.key = word;
    RegisteredMemory memory = host_->register_memory(range);
    if (memory.key != 0) word = memory.key;
    return memory;
}

std::vector<RegisteredMemory> RailManager::register_on_its_rails(const Registration& region,
                                                                 KnownRange& known) {
    for (const Registration* other = known.registered; other; other = other->earlier) {
        if (no_nics_ && other->writable == region.writable && other->rails == region.rails)
            return other->memory;
    }
    MemoryRange range{region.address, region.length, region.writable};
    range.key = known.names.number;
    return register_on_rails(rails_of(region.rails), range);
}

/// With the lock of its range. Peers that come with older keys have to ask us, and wait where no thread of
/// ours answers. While an older registration lives, its keys are for the pages that were there then (ADR 22).
void RailManager::describe(Registration& region, KnownRange& known) {
    if (!renews_keys_ || region.memory.empty()) return;
    std::shared_ptr<const KeyTable>& first = known.names.first;
    if (!first) first = std::make_shared<const KeyTable>(region.key_table());
    region.first = first;
    region.described_as_first = (!known.registered || always_as_first_) && first->rails == region.rails;
}

std::vector<Rail*> RailManager::rails_of(const RailSet& set) const {
    std::vector<Rail*> rails;
    for (const std::uint16_t rail : set)
        rails.push_back(rails_[rail].get());
    return rails;
}

void RailManager::keep_memory(const Registration& region) noexcept {
    for (std::size_t i = 0; i < region.memory.size(); ++i)
        rails_[region.rails[i]]->keep_memory(region.memory[i]);
}

void RailManager::deregister_memory(Registration& region) noexcept {
    KnownRange* const known = std::exchange(region.known, nullptr);
    if (!known) return give_back(region);
    {
        const MutexLock lock(known->mutex);
        known->remove(region);
        if (region.known_no_more.load(std::memory_order_relaxed)) known->names = {};
        give_back(region);
    }
    known_ranges_.leave(*known);
}

void RailManager::give_back(Registration& region) noexcept {
    if (host_) host_->deregister_memory(region.on_host);
    for (std::size_t i = 0; i < region.memory.size(); ++i)
        rails_[region.rails[i]]->deregister_memory(region.memory[i]);
    region.memory.clear();
}

std::vector<RailPair> RailManager::pairs_from(const RailSet& remote) const {
    std::vector<RailPair> pairs = pair_rails(remote, all_, rules_.pairing);
    for (RailPair& pair : pairs)
        pair = {pair.remote, pair.local};
    return pairs;
}

}  // namespace railyard
