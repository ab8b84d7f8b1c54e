// Driving the plugin through the embedded host.
#include "agent_side.h"

#include <utility>

namespace railyard::bench {

host::AgentConfig agent_config(const Options& options, const std::string& name) {
    host::AgentConfig config;
    config.name = name;
    config.plugin = options.plugin;
    config.plugin_dir = options.plugin_dir;
    config.params = options.params;
    config.progress_thread = options.progress_thread;
    return config;
}

std::string notification_text(unsigned point, unsigned slot) {
    return "railyard-bench:" + std::to_string(point) + ":" + std::to_string(slot);
}

AgentSide::AgentSide(const Options& options, const std::string& name, const host::Range& memory)
    : memory_(memory), moves_once_(options.corrupt == Corrupt::reposts), agent_(agent_config(options, name)) {
    if (options.stream == StreamMode::attached) gpu_.emplace(options.mem.gpu);
    agent_.register_memory(memory);
}

void AgentSide::join(std::string_view metadata, const host::Range& remote) {
    peer_ = agent_.load_peer(metadata);
    remote_ = remote;
}

void AgentSide::prepare(const Point& point) {
    const Layout& layout = point.layout;
    release();
    std::vector<host::Request> requests;
    requests.reserve(layout.window);
    std::vector<host::Range> local(layout.batch), remote(layout.batch);
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        for (unsigned block = 0; block < layout.batch; ++block) {
            const std::uint64_t offset = layout.offset(slot, block);
            local[block] = {memory_.address + offset, layout.size, memory_.device};
            remote[block] = {remote_.address + offset, layout.size, remote_.device};
        }
        std::optional<std::string> notification;
        if (point.notify) notification = notification_text(point.index, slot);
        std::string custom_param;
        if (gpu_) custom_param = streams_.emplace_back(*gpu_).custom_param();
        requests.push_back(agent_.prepare(point.op, local, remote, peer_, notification, custom_param));
    }
    ring_.reset(std::move(requests), moves_once_);
}

}  // namespace railyard::bench
