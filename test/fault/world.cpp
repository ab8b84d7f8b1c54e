#include "world.h"

#include <sstream>

#include "fabric/info.h"

namespace railyard::fault {
namespace {

/// Of unanswered operations; real NICs take seconds.
constexpr const char* base_settings[] = {"timeout_ms=30"};
constexpr const char* calm_settings[] = {
    "rate_gbps=0",  "latency_us=0",         "jitter_us=0",         "out_of_order=0",    "eagain_next=0",
    "error_next=0", "eagain_probability=0", "error_probability=0", "rnr_probability=0", "rnr_next=0",
    "link=up",      "late_probability=0",   "late_next=0",         "error_code=0",      "lost_answer_next=0"};

std::vector<std::string> nic_names(const std::string& provider) {
    std::vector<std::string> names;
    for (const fabric::Device& device : fabric::discover(provider, {}))
        names.push_back(device.name);
    return names;
}

std::string secret_of(int number) {
    return "what the engines of a schedule share, number " + std::to_string(number);
}

}  // namespace

World::World(const Schedule& schedule, Oracle& oracle)
    : schedule_(schedule), oracle_(oracle), nodes_(schedule.engines.size()) {
    for (const char* setting : base_settings)
        control_.set(setting);
    const std::vector<std::string> names = nic_names(schedule.provider);
    std::size_t next = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        for (int rail = 0; rail < schedule.engines[i].rails; ++rail)
            nodes_[i].nics.push_back(names.at(next++));
        make_engine(static_cast<int>(i));
    }
    const auto count = static_cast<int>(nodes_.size());
    for (int i = 0; i < count; ++i) {
        for (int other = 0; other < count; ++other) {
            if (other != i) introduce(i, other);
        }
    }
}

World::~World() {
    for (Node& node : nodes_)
        node.engine.reset();
}

void World::make_engine(int index) {
    ParamMap params{{"provider", schedule_.provider},
                    {"local_rail", "off"},
                    {"max_bw_per_dram_seg", "1000000"},  // all rails for any memory
                    {"connect_timeout_ms", "3000"}};
    std::string& devices = params["devices"];
    for (const std::string& nic : node(index).nics)
        devices += (devices.empty() ? "" : ",") + nic;
    const EngineSpec& spec = schedule_.engines[static_cast<std::size_t>(index)];
    if (spec.xfer_timeout_ms) params["xfer_timeout_ms"] = std::to_string(spec.xfer_timeout_ms);
    if (spec.secret) params["cluster_secret"] = secret_of(spec.secret);
    EngineConfig config;
    config.agent_name = agent_of(index);
    config.params = Params::parse(params, [](const char*) -> const char* { return nullptr; });
    config.progress_thread = spec.progress_thread;
    node(index).engine = std::make_unique<Engine>(std::move(config));
    for (int slot = 0; slot < region_slots; ++slot) {
        Slot& memory = oracle_.slot(index, slot);
        memory.registration = engine(index)->register_memory(memory.address(), memory.bytes.size(), 0);
    }
}

void World::introduce(int index, int to) {
    try {
        engine(index)->load_connection_info(agent_of(to), engine(to)->connection_info());
    } catch (const Error& error) {
        return oracle_.introduced(index, to, error.status(), error.what());
    }
    oracle_.introduced(index, to, Status::ok, "");
}

void World::drive() {
    std::vector<Notification> got;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!nodes_[i].engine) continue;
        nodes_[i].engine->progress();
        got.clear();
        nodes_[i].engine->take_notifications(got);
        for (const Notification& notification : got)
            oracle_.arrived(static_cast<int>(i), notification.agent, notification.message);
    }
}

std::shared_ptr<RemoteRegion> World::remote(const TransferSpec& spec) {
    Slot& memory = oracle_.slot(spec.to, spec.region);
    if (spec.from == spec.to) return engine(spec.from)->local_as_remote(memory.registration);
    return engine(spec.from)->load_remote_memory(agent_of(spec.to),
                                                 engine(spec.to)->memory_metadata(*memory.registration),
                                                 memory.address(), memory.bytes.size());
}

Transfer* World::prepare(const TransferSpec& spec) {
    Slot& from = oracle_.slot(spec.from, spec.region);
    Slot& to = oracle_.slot(spec.to, spec.region);
    if (!knows(spec.from, spec.to) || !from.registration || !to.registration) return nullptr;
    oracle_.prepared(spec.id);
    try {
        const std::shared_ptr<RemoteRegion> region = remote(spec);
        std::vector<LocalDescriptor> local;
        std::vector<RemoteDescriptor> there;
        for (const Range* range : from.ranges_of(spec.id, spec.read))
            local.push_back({from.address() + range->offset, range->length, &from.registration});
        for (const Range* range : to.ranges_of(spec.id, !spec.read))
            there.push_back({to.address() + range->offset, range->length, &region});
        return engine(spec.from)->prepare(spec.read ? Operation::read : Operation::write, local, there,
                                          agent_of(spec.to), std::nullopt);
    } catch (const Error& error) {
        oracle_.refused(spec.id, error.status(), error.what());
        return nullptr;
    }
}

void World::notify(int from, int to, int id, int length) {
    if (!engine(from) || !engine(to)) return;
    const std::string text = oracle_.send(from, to, id, static_cast<std::size_t>(length));
    try {
        engine(from)->send_notification(agent_of(to), text);
    } catch (const Error& error) {
        oracle_.send_refused(text, error.status(), error.what());
    }
}

void World::fault(int index, int rail, const std::string& settings) {
    Node& at = node(index);
    if (static_cast<std::size_t>(rail) >= at.nics.size()) return;
    std::istringstream list(settings);
    std::vector<std::string> words;
    for (std::string word; std::getline(list, word, ',');)
        words.push_back(word);
    const std::lock_guard lock(nics_);
    // The oracle first: what it does not know of, it does not excuse.
    for (const std::string& word : words) {
        if (const auto kind = fault_of(word)) oracle_.nic_fault(*kind, index, rail);
    }
    // What shapes a fault comes after its name in a schedule, and before it here.
    for (auto word = words.rbegin(); word != words.rend(); ++word)
        control_.set(*word, {"*", at.nics[static_cast<std::size_t>(rail)]});
}

void World::calm(int index, int rail) {
    Node& at = node(index);
    if (static_cast<std::size_t>(rail) >= at.nics.size()) return;
    const std::lock_guard lock(nics_);
    for (const char* setting : calm_settings)
        control_.set(setting, {"*", at.nics[static_cast<std::size_t>(rail)]});
    oracle_.nic_calm(index, rail);
}

void World::calm_all() {
    for (const char* setting : calm_settings)
        control_.set(setting);
    oracle_.all_calm();
}

void World::destroy(int index) {
    if (!engine(index)) return;
    oracle_.fault_begins(Fault::restart, index);
    node(index).engine.reset();
    for (int slot = 0; slot < region_slots; ++slot)
        oracle_.slot(index, slot).registration.reset();
    oracle_.destroyed(index);
}

void World::create(int index) {
    if (engine(index)) return;
    for (const std::string& nic : node(index).nics)
        control_.set("gone=0", {"*", nic});  // it comes back to a machine that was mended
    make_engine(index);
    for (int other = 0; other < static_cast<int>(nodes_.size()); ++other) {
        if (other == index || !engine(other)) continue;
        introduce(other, index);
        introduce(index, other);
    }
    oracle_.fault_ends(Fault::restart, index);
}

void World::disconnect(int index, int from) {
    if (!knows(index, from)) return;
    oracle_.fault_begins(Fault::disconnect, index, from);
    try {
        engine(index)->disconnect(agent_of(from));
    } catch (const Error& error) {
        if (error.status() != Status::not_found) throw;
    }
}

void World::connect(int index, int to) {
    if (!knows(index, to)) return;
    introduce(index, to);
    oracle_.fault_ends(Fault::disconnect, index, to);
}

void World::deregister(int index, int slot) {
    Slot& memory = oracle_.slot(index, slot);
    if (!engine(index) || !memory.registration) return;
    oracle_.fault_begins(Fault::deregister, index, slot);
    try {
        engine(index)->deregister_memory(memory.registration);
    } catch (const Error& error) {
        // Its transfers did not end in time: it goes when they have. Until then they may change it.
        if (error.status() != Status::not_allowed) throw;
        memory.registration.reset();
        return;
    }
    memory.registration.reset();
    oracle_.deregistered(index, slot);
}

void World::enlist(int index, int slot) {
    Slot& memory = oracle_.slot(index, slot);
    if (!engine(index) || memory.registration) return;
    memory.registration = engine(index)->register_memory(memory.address(), memory.bytes.size(), 0);
    oracle_.fault_ends(Fault::deregister, index, slot);
}

}  // namespace railyard::fault
