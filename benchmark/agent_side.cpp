// Driving the plugin through the embedded host.
#include "agent_side.h"

#include <utility>

#include "failure.h"

namespace railyard::bench {

namespace {

host::AgentConfig make_config(const Options& options, const std::string& name) {
    host::AgentConfig config;
    config.name = name;
    config.plugin = options.plugin;
    config.plugin_dir = options.plugin_dir;
    config.params = options.params;
    config.progress_thread = options.progress_thread;
    return config;
}

}  // namespace

std::string notification_text(unsigned point, unsigned slot) {
    return "railyard-bench:" + std::to_string(point) + ":" + std::to_string(slot);
}

AgentSide::AgentSide(const Options& options, const std::string& name, const host::Range& memory)
    : memory_(memory), agent_(make_config(options, name)) {
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
    requests_.reserve(layout.window);
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
        requests_.push_back(agent_.prepare(point.op, local, remote, peer_, notification, custom_param));
    }
    next_.assign(layout.window + 1, layout.window);
    previous_.assign(layout.window + 1, layout.window);
    scan_ = layout.window;
    at_once_.clear();
    at_once_.reserve(layout.window);
    done_.clear();
    done_.reserve(layout.window);
}

void AgentSide::post(unsigned slot) {
    Status status = requests_[slot].post();
    if (status == Status::in_progress) {
        append(slot);
    } else if (status == Status::ok) {
        at_once_.push_back(slot);
    } else {
        throw Failure(std::string("a post failed: ") + railyard::to_string(status));
    }
}

bool AgentSide::ended(unsigned slot) {
    Status status = requests_[slot].poll();
    if (status == Status::in_progress) return false;
    if (status != Status::ok) throw Failure(std::string("a transfer failed: ") + railyard::to_string(status));
    remove(slot);
    done_.push_back(slot);
    return true;
}

std::span<const unsigned> AgentSide::harvest() {
    done_.clear();
    std::swap(done_, at_once_);
    auto end = static_cast<unsigned>(next_.size() - 1);
    // One at a time: to poll the next one first would let the network run on before this one's slot is
    // reused.
    if (next_[end] != end && ended(next_[end])) return done_;
    if (scan_ == end) scan_ = next_[end];
    if (scan_ != next_[end]) {
        unsigned slot = scan_;
        scan_ = next_[slot];
        ended(slot);
    } else if (scan_ != end) {
        scan_ = next_[scan_];
    }
    return done_;
}

void AgentSide::append(unsigned slot) noexcept {
    auto end = static_cast<unsigned>(next_.size() - 1);
    unsigned last = previous_[end];
    next_[last] = slot;
    previous_[slot] = last;
    next_[slot] = end;
    previous_[end] = slot;
}

void AgentSide::remove(unsigned slot) noexcept {
    if (scan_ == slot) scan_ = next_[slot];
    next_[previous_[slot]] = next_[slot];
    previous_[next_[slot]] = previous_[slot];
}

}  // namespace railyard::bench
