// The command line of railyard-bench as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "group/group_options.h"
#include "host/agent.h"
#include "place.h"

namespace railyard::bench {

enum class Role { both, target, initiator };
enum class TargetPoll { automatic, on, off };
/// Fault injection for the tests. reposts: a request that is posted once more ends at once, and moves
/// nothing.
enum class Corrupt { none, data, guard, reposts };
/// attached: each slot of the window has a CUDA stream of its own on the initiator's GPU, and its transfer is
/// prepared for that stream. pool: posted at once, and copies of GPU memory run on the plugin's streams. off:
/// no stream is meant.
enum class StreamMode { off, attached, pool };

[[nodiscard]] const char* to_string(StreamMode mode) noexcept;

/// What the network side is asked for, after parameters and environment: what the plugin itself would use.
struct FabricChoice {
    std::string provider;           ///< as the plugin's parameter of that name
    std::string devices;            ///< likewise
    unsigned rails_per_device = 0;  ///< 0: as many as the plugin opens when it is not told
    unsigned rails_limit = 0;       ///< 0: none
    bool local_rail = false;        ///< past the fabric where both sides are on one host
};

struct Options {
    std::string plugin = "RAILYARD";
    std::string plugin_dir;
    std::map<std::string, std::string> params;

    std::vector<host::Op> ops;
    std::vector<std::uint64_t> sizes;
    std::vector<unsigned> batches;
    std::vector<bool> notify;

    Place mem;         ///< of the initiator; `gpu` counts for its streams, too
    Place target_mem;  ///< the initiator tells the target
    StreamMode stream = StreamMode::off;

    double seconds = 0.5;
    std::uint64_t iterations = 0;  ///< 0: run for `seconds`
    unsigned window = 16;
    unsigned slices = 0;  ///< timed parts of a point; 0: 1, or 5 with --raw
    bool progress_thread = false;
    std::uint64_t memory = std::uint64_t{2} << 30;  ///< most memory of one side

    std::string json;  ///< file, "-" for standard output, empty for none
    bool check = true;
    bool raw = false;
    bool raw_only = false;
    bool post_time = false;
    double idle_seconds = 0;  ///< > 0: only measure what idle agents cost
    std::chrono::milliseconds timeout{30000};
    std::uint64_t seed = 0;
    std::map<std::string, std::string> target_environment;  ///< of a forked target or group
    TargetPoll target_poll = TargetPoll::automatic;

    Role role = Role::both;
    std::string peer_host;
    std::uint16_t peer_port = 0;

    GroupOptions group;

    Corrupt corrupt = Corrupt::none;
    bool stall = false;  ///< fault injection, too: the target does not serve the timed part

    [[nodiscard]] bool is_group() const noexcept { return group.world != 0; }
    [[nodiscard]] bool uses_plugin() const noexcept { return !raw_only; }
    [[nodiscard]] bool uses_raw() const noexcept { return raw || raw_only; }
    [[nodiscard]] bool uses_gpu() const noexcept {
        return mem.vram || target_mem.vram || stream != StreamMode::off;
    }
    [[nodiscard]] unsigned slice_count() const noexcept { return slices != 0 ? slices : raw ? 5 : 1; }
    [[nodiscard]] bool json_to_stdout() const noexcept { return json == "-"; }
};

/// Either options, with what is to be said of them on standard error, or the text to print and the exit
/// status (0 for --help, 2 for a usage error).
struct ParsedOptions {
    std::optional<Options> options;
    std::string text;
    int exit_status = 0;
};

/// Fills in what depends on other options too: the plugin directory, and provider and devices where both
/// sides share a host. Reads the environment through common/params only. Throws nothing.
[[nodiscard]] ParsedOptions parse_options(int argc, const char* const* argv);

/// What is timed with --iters ends when it ends; whoever waits for it without a limit of another kind does so
/// for so long. Who makes no progress ends by itself long before.
inline constexpr std::chrono::milliseconds longest_part = std::chrono::hours(24 * 30);

/// Whether the setting of that name is one that nobody is to read again.
[[nodiscard]] bool is_secret(std::string_view param);

/// Provider, devices and rails that `params` and the environment ask the RAILYARD plugin for. Parameters of
/// other plugins are passed over. Throws Error{invalid_param} for a bad value.
[[nodiscard]] FabricChoice fabric_choice(const std::map<std::string, std::string>& params);

}  // namespace railyard::bench
