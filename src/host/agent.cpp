#include "host/agent.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "host/agent_core.h"
#include "host/peer_blob.h"
#include "host/sections.h"

namespace railyard::host {
namespace {

std::string memory_name(std::uint64_t device) {
    return device == 0 ? "host memory" : "GPU " + std::to_string(device - 1);
}

std::string describe(const Range& range) {
    std::string text = "[";
    text.append(std::to_string(range.address)).append(", +").append(std::to_string(range.length));
    return text.append(") of ").append(memory_name(range.device));
}

nixlBlobDesc blob_descriptor(const Range& range, std::string metadata) {
    nixlBlobDesc desc;
    desc.addr = range.address;
    desc.len = range.length;
    desc.devId = plugin_device(range.device);
    desc.metaInfo = std::move(metadata);
    return desc;
}

nixlBackendInitParams init_params(const AgentConfig& config, nixl_b_params_t& params) {
    nixlBackendInitParams init;
    init.localAgent = config.name;
    init.type = config.plugin;
    init.customParams = &params;
    init.enableProgTh = config.progress_thread;
    init.pthrDelay = static_cast<std::uint64_t>(std::max<std::int64_t>(0, config.progress_delay.count()));
    return init;
}

EnginePointer make_engine(const Plugin& plugin, const AgentConfig& config) {
    nixl_b_params_t params(config.params.begin(), config.params.end());
    return plugin.create_engine(init_params(config, params));
}

enum class Side { local, remote };

/// The plugin's list for one side of a transfer: each range with the handle of the section around it.
nixl_meta_dlist_t meta_list(std::span<const Range> ranges, const Sections& sections, Side side) {
    nixl_meta_dlist_t list(ranges.empty() ? DRAM_SEG : memory_type(ranges.front().device),
                           static_cast<int>(ranges.size()));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const Section* const section = sections.around(ranges[i]);
        const char* const name = side == Side::local ? "local" : "remote";
        if (section == nullptr)
            throw Error(Status::not_found, std::string(name) + " descriptor " + std::to_string(i) + " " +
                                               describe(ranges[i]) + " is not inside a registered region");
        if (memory_type(ranges[i].device) != list.getType())
            throw Error(Status::invalid_param, std::string(name) + " descriptors mix kinds of memory");
        list[i].addr = ranges[i].address;
        list[i].len = ranges[i].length;
        list[i].devId = plugin_device(ranges[i].device);
        list[i].metadataP = side == Side::local ? section->handle : section->as_target;
    }
    return list;
}

}  // namespace

class Agent::Impl {
  public:
    explicit Impl(AgentConfig given)
        : config(std::move(given)),
          plugin(plugin_directory(config.plugin_dir), config.plugin),
          engine(make_engine(plugin, config)) {
        require_success(engine->getConnInfo(connection_info), "give its connection information");
        if (engine->supportsLocal() && engine->supportsRemote())
            require_success(engine->connect(config.name), "connect to itself");
        memories = engine->getSupportedMems();
    }
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void give_back(const Section& section) const {
        if (section.as_target != nullptr) engine->unloadMD(section.as_target);
        if (section.handle != nullptr) engine->deregisterMem(section.handle);
    }
    void load_regions(const PeerDescription& peer, Sections& loaded);
    void drop_peer(const std::string& agent);
    const Sections& targets(const std::string& agent) const;

    const AgentConfig config;
    const Plugin plugin;
    const EnginePointer engine;
    std::string connection_info;
    nixl_mem_list_t memories;
    std::mutex mutex;  ///< guards `own` and `peers`
    Sections own;
    std::unordered_map<std::string, Sections> peers;
    const std::shared_ptr<LiveRequests> live = std::make_shared<LiveRequests>();
};

// Requests first, then memory, then the engine: nothing is left for it to clean up.
Agent::Impl::~Impl() {
    live->release_all();
    for (const Section& section : own.all())
        give_back(section);
    for (const auto& [agent, sections] : peers)
        for (const Section& section : sections.all())
            give_back(section);
}

void Agent::Impl::load_regions(const PeerDescription& peer, Sections& loaded) {
    for (const PublishedRegion& region : peer.regions) {
        Section section{.range = {region.address, region.length, region.device},
                        .published = region.metadata};
        require_success(engine->loadRemoteMD(blob_descriptor(section.range, region.metadata),
                                             memory_type(region.device), peer.agent, section.as_target),
                        "load region " + describe(section.range) + " of agent '" + peer.agent + "'");
        loaded.add(std::move(section));
    }
}

void Agent::Impl::drop_peer(const std::string& agent) {
    engine->disconnect(agent);  // its status tells nothing: the plugin has forgotten the agent either way
    const auto found = peers.find(agent);
    if (found == peers.end()) return;
    for (const Section& section : found->second.all())
        give_back(section);
    peers.erase(found);
}

const Sections& Agent::Impl::targets(const std::string& agent) const {
    if (agent == config.name) return own;
    const auto found = peers.find(agent);
    if (found == peers.end())
        throw Error(Status::not_found, "agent '" + agent + "' is unknown: load its metadata first");
    return found->second;
}

Agent::Agent(AgentConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Agent::~Agent() = default;

const std::string& Agent::name() const noexcept {
    return impl_->config.name;
}

void Agent::register_memory(Range range) {
    const nixl_mem_t type = memory_type(range.device);
    if (std::find(impl_->memories.begin(), impl_->memories.end(), type) == impl_->memories.end())
        throw Error(Status::not_supported, "plugin " + impl_->config.plugin + " does not handle memory of " +
                                               memory_name(range.device));
    Section section{.range = range};
    require_success(impl_->engine->registerMem(blob_descriptor(range, {}), type, section.handle),
                    "register " + describe(range));
    try {
        require_success(impl_->engine->loadLocalMD(section.handle, section.as_target),
                        "load " + describe(range) + " for transfers to ourselves");
        require_success(impl_->engine->getPublicData(section.handle, section.published),
                        "publish " + describe(range));
        const std::lock_guard lock(impl_->mutex);
        impl_->own.add(section);
    } catch (...) {
        impl_->give_back(section);
        throw;
    }
}

void Agent::deregister_memory(Range range) {
    const std::lock_guard lock(impl_->mutex);
    const Section* const section = impl_->own.exactly(range);
    if (section == nullptr) throw Error(Status::not_found, "no region " + describe(range) + " is registered");
    require_success(impl_->engine->deregisterMem(section->handle), "deregister " + describe(range));
    impl_->engine->unloadMD(section->as_target);
    impl_->own.remove(section);
}

std::string Agent::metadata() const {
    PeerDescription self{.agent = name(),
                         .plugin = impl_->config.plugin,
                         .connection_info = impl_->connection_info,
                         .regions = {}};
    const std::lock_guard lock(impl_->mutex);
    for (const Section& section : impl_->own.all())
        self.regions.push_back(
            {section.range.address, section.range.length, section.range.device, section.published});
    return encode(self);
}

std::string Agent::load_peer(std::string_view metadata) {
    const PeerDescription peer = decode(metadata);
    if (peer.agent == name())
        throw Error(Status::invalid_param, "this is the metadata of '" + name() + "' itself");
    if (peer.plugin != impl_->config.plugin)
        throw Error(Status::mismatch, "agent '" + peer.agent + "' uses plugin " + peer.plugin + ", we use " +
                                          impl_->config.plugin);
    const std::lock_guard lock(impl_->mutex);
    Sections loaded;
    bool known = impl_->peers.contains(peer.agent);
    try {
        require_success(impl_->engine->loadRemoteConnInfo(peer.agent, peer.connection_info),
                        "load the connection information of agent '" + peer.agent + "'");
        known = true;
        impl_->load_regions(peer, loaded);
    } catch (...) {
        for (const Section& section : loaded.all())
            impl_->give_back(section);
        if (known) impl_->drop_peer(peer.agent);
        throw;
    }
    std::swap(impl_->peers[peer.agent], loaded);
    for (const Section& section : loaded.all())
        impl_->give_back(section);  // what was loaded of it before
    return peer.agent;
}

void Agent::connect(const std::string& agent) {
    require_success(impl_->engine->connect(agent), "connect to agent '" + agent + "'");
}

void Agent::forget_peer(const std::string& agent) {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->peers.contains(agent)) throw Error(Status::not_found, "agent '" + agent + "' is unknown");
    impl_->drop_peer(agent);
}

Request Agent::prepare(Op op, std::span<const Range> local, std::span<const Range> remote,
                       const std::string& agent, std::optional<std::string> notification,
                       std::string custom_param) {
    if (local.size() != remote.size())
        throw Error(Status::invalid_param, std::to_string(local.size()) + " local and " +
                                               std::to_string(remote.size()) + " remote descriptors");
    auto state = std::make_unique<RequestState>(*impl_->engine, impl_->live);
    state->operation = op == Op::read ? NIXL_READ : NIXL_WRITE;
    state->agent = agent;
    {
        const std::lock_guard lock(impl_->mutex);
        state->local = meta_list(local, impl_->own, Side::local);
        state->remote = meta_list(remote, impl_->targets(agent), Side::remote);
    }
    state->options.hasNotif = notification.has_value();
    if (notification) state->options.notifMsg = std::move(*notification);
    nixlBackendOptionalArgs at_preparation = state->options;
    at_preparation.customParam = std::move(custom_param);
    require_success(impl_->engine->prepXfer(state->operation, state->local, state->remote, agent,
                                            state->handle, &at_preparation),
                    "prepare a transfer with agent '" + agent + "'");
    impl_->live->add(state.get());
    return Request(std::move(state));
}

void Agent::notify(const std::string& agent, const std::string& message) {
    require_success(impl_->engine->genNotif(agent, message), "notify agent '" + agent + "'");
}

std::vector<std::pair<std::string, std::string>> Agent::notifications() {
    notif_list_t arrived;
    require_success(impl_->engine->getNotifs(arrived), "give its notifications");
    return arrived;
}

}  // namespace railyard::host
