#include "shared/settings.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace simefa {
namespace {

constexpr double gbps = 1e9 / 8;
constexpr double microseconds = 1e3;
constexpr double milliseconds = 1e6;
constexpr double probability = 1e6;

constexpr SettingInfo table[] = {
    {"tx_rate_gbps", Setting::tx_rate, gbps, "Gbit/s", "rate out of the NIC; 0: no limit"},
    {"rx_rate_gbps", Setting::rx_rate, gbps, "Gbit/s", "rate into the NIC, shared by all senders"},
    {"latency_us", Setting::latency, microseconds, "us",
     "from the end of an operation's wire time to its arrival"},
    {"jitter_us", Setting::jitter, microseconds, "us",
     "random addition to the latency, for each operation its own"},
    {"out_of_order", Setting::out_of_order, 1, "0/1",
     "carry out due operations, and the parts of one, in random order"},
    {"eagain_probability", Setting::eagain_probability, probability, "0..1",
     "share of posts refused with EAGAIN"},
    {"eagain_next", Setting::eagain_next, 1, "posts", "refuse that many posts from now on"},
    {"error_code", Setting::error_code, 1, "code", "prov_errno of injected errors; 0: 13"},
    {"error_probability", Setting::error_probability, probability, "0..1", "share of operations that fail"},
    {"error_next", Setting::error_next, 1, "operations", "fail that many operations from now on"},
    {"rnr_probability", Setting::rnr_probability, probability, "0..1",
     "share of messages that find no receiver ready (10)"},
    {"rnr_next", Setting::rnr_next, 1, "messages", "that many messages find no receiver ready (10)"},
    {"link_down", Setting::link_down, 1, "0/1", "nothing passes; operations fail with 13 after the timeout"},
    {"timeout_ms", Setting::timeout, milliseconds, "ms", "until an unanswered operation fails; 0: 200"},
    {"gone", Setting::gone, 1, "0/1",
     "the device is removed: operations are flushed (1), posts refused, not listed"},
    {"late_probability", Setting::late_probability, probability, "0..1",
     "share of operations that fail and land later"},
    {"late_next", Setting::late_next, 1, "operations", "that many operations fail at once and land later"},
    {"late_ms", Setting::late_delay, milliseconds, "ms", "how much later"},
    {"lost_answer_next", Setting::lost_answer_next, 1, "operations",
     "that many operations are carried out and fail for want of an answer (13)"},
    {"internal_error_next", Setting::internal_error_next, 1, "times",
     "the device breaks: EQ error, abort() without an EQ"},
    {"max_batch", Setting::max_batch, 1, "posts", "that one doorbell covers; 0: 32"},
    {"rdma_read", Setting::rdma_read, 1, "auto/off/on", "device READ; auto: by device generation"},
    {"rdma_write", Setting::rdma_write, 1, "auto/off/on", "device WRITE; auto: by device generation"},
    {"accept_unknown", Setting::accept_unknown, 1, "0/1",
     "let in READ and WRITE of endpoints that the target does not know"},
    {"wait_objects", Setting::wait_objects, 1, "auto/off/on",
     "completion queues can be waited for; auto: on"},
    {"unsolicited_write_recv", Setting::unsolicited, 1, "auto/off/on",
     "immediate data needs no receive buffer; auto: on"},
    {"gpu_memory", Setting::gpu_memory, 1, "auto/off/on", "FI_HMEM is offered; auto: on"},
    {"gpu_peer_to_peer", Setting::gpu_peer_to_peer, 1, "auto/off/on",
     "GPU memory can be registered with the device; auto: on"},
    {"gpu_address", Setting::gpu_address, 1, "auto/off/on",
     "GPU memory is registered by its address, as with nvidia-peermem; auto: on"},
    {"gpu_dmabuf", Setting::gpu_dmabuf, 1, "auto/off/on", "memory is registered by a dma-buf; auto: on"},
    {"region_pages", Setting::region_pages, 1, "pages",
     "of 4 KiB that a region of a device with WRITE may have; 0: 1048576"},
    {"close_wait_ms", Setting::close_wait, milliseconds, "ms",
     "closing an endpoint of fabric efa waits for what it has sent, so long at most; 0: 20000"},
};
static_assert(std::size(table) == setting_count);

constexpr std::string_view counter_names[] = {
    "writes",    "reads",         "sends",       "received",  "notices",       "bytes_out",
    "bytes_in",  "doorbells",     "completions", "errors",    "refused_posts", "not_ready",
    "in_flight", "max_in_flight", "regions",     "addresses", "endpoints",     "receive_buffers",
};
static_assert(std::size(counter_names) == counter_count);

double number(std::string_view key, std::string_view text, std::string_view unit) {
    if (text == "auto") return 0;
    if (text == "off") return unit == "auto/off/on" ? 1 : 0;
    if (text == "on") return unit == "auto/off/on" ? 2 : 1;
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    const bool fraction = unit == "0..1";
    if (copy.empty() || *end != '\0' || !std::isfinite(value) || value < 0 || (fraction && value > 1)) {
        throw std::invalid_argument(std::string(key) + ": bad value \"" + copy +
                                    "\", wanted: " + std::string(unit));
    }
    return value;
}

[[noreturn]] void unknown(std::string_view key) {
    std::string message =
        "no setting \"" + std::string(key) + "\"; there are: rate_gbps (both directions), link (up/down)";
    for (const SettingInfo& info : table)
        message += ", " + std::string(info.name);
    throw std::invalid_argument(message);
}

}  // namespace

std::span<const SettingInfo> setting_table() noexcept {
    return table;
}

std::string_view counter_name(Counter counter) noexcept {
    return counter_names[static_cast<std::size_t>(counter)];
}

ChangeList parse_change(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
        throw std::invalid_argument("\"" + std::string(text) + "\": wanted KEY=VALUE");
    const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
    if (key == "rate_gbps") {
        const auto rate = static_cast<std::uint64_t>(number(key, value, "Gbit/s") * gbps);
        return {{{Setting::tx_rate, rate}, {Setting::rx_rate, rate}}, 2};
    }
    if (key == "link") {
        if (value != "up" && value != "down") throw std::invalid_argument("link: up or down");
        return {{{Setting::link_down, value == "down" ? 1U : 0U}, {}}, 1};
    }
    for (const SettingInfo& info : table) {
        if (info.name != key) continue;
        const double stored = number(key, value, info.unit) * info.scale;
        return {{{info.setting, static_cast<std::uint64_t>(std::llround(stored))}, {}}, 1};
    }
    unknown(key);
}

}  // namespace simefa
