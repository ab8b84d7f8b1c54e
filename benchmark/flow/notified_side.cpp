// Writes with notification through the plugin, in place of grains.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/status.h"
#include "plugin_directory.h"
#include "sides.h"

namespace railyard::bench {
namespace {

host::AgentConfig agent_config(const FlowBenchOptions& options) {
    host::AgentConfig config;
    config.name = "flow-bench:" + std::to_string(getpid());
    config.plugin_dir = plugin_directory(options.plugin_dir);
    config.params = {
        {"provider", options.raw_provider}, {"devices", options.flow.interface}, {"local_rail", "off"}};
    if (options.flow.interface.empty()) config.params.erase("devices");
    config.progress_thread = false;
    return config;
}

}  // namespace

NotifiedSide::NotifiedSide(const FlowBenchOptions& options, const GrainMemory& memory)
    : options_(options), memory_(memory), agent_(agent_config(options)) {
    agent_.register_memory({reinterpret_cast<std::uint64_t>(memory.whole().data()), memory.whole().size()});
}

std::string NotifiedSide::info() const {
    const std::string metadata = agent_.metadata();
    const nlohmann::json json{{"base", reinterpret_cast<std::uint64_t>(memory_.whole().data())},
                              {"metadata", nlohmann::json::binary({metadata.begin(), metadata.end()})}};
    const auto packed = nlohmann::json::to_cbor(json);
    return {packed.begin(), packed.end()};
}

void NotifiedSide::add(unsigned /*initiator*/, const std::string& info) {
    const auto there = nlohmann::json::from_cbor(info.begin(), info.end());
    const auto& metadata = there.at("metadata").get_binary();
    const std::string peer =
        agent_.load_peer({reinterpret_cast<const char*>(metadata.data()), metadata.size()});
    for (std::uint32_t i = 0; i < options_.flow.ring; ++i) {
        const auto offset = static_cast<std::uint64_t>(memory_.coming(i) - memory_.whole().data());
        const host::Range from{reinterpret_cast<std::uint64_t>(memory_.leaving(i)), options_.flow.grain_size};
        const host::Range to{there.at("base").get<std::uint64_t>() + offset, options_.flow.grain_size};
        slots_.push_back({agent_.prepare(host::Op::write, {&from, 1}, {&to, 1}, peer, "grain")});
    }
}

bool NotifiedSide::ended(Slot& slot) {
    if (!slot.busy) return true;
    const Status status = slot.request.poll();
    if (status == Status::in_progress) return false;
    if (status != Status::ok) throw Failure(std::string("a write failed: ") + to_string(status));
    slot.busy = false;
    return true;
}

bool NotifiedSide::transfer(unsigned /*initiator*/) {
    Slot& slot = slots_[next_];
    if (!ended(slot)) return false;
    const Status status = slot.request.post();
    if (status != Status::in_progress && status != Status::ok)
        throw Failure(std::string("a post failed: ") + to_string(status));
    slot.busy = status == Status::in_progress;
    next_ = (next_ + 1) % slots_.size();
    return true;
}

bool NotifiedSide::progress(unsigned /*initiator*/) {
    bool over = true;
    for (Slot& slot : slots_)
        over = ended(slot) && over;
    return over;
}

bool NotifiedSide::take() {
    if (taken_ == announced_) announced_ += agent_.notifications().size();
    if (taken_ == announced_) return false;
    ++taken_;
    return true;
}

}  // namespace railyard::bench
