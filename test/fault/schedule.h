// A schedule: every decision of one run of the campaign, as values and as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::fault {

/// Slots of memory that an engine registers, each as a whole.
inline constexpr int region_slots = 3;

struct EngineSpec {
    int rails = 1;
    bool progress_thread = false;
    int xfer_timeout_ms = 0;  ///< 0: no limit
    int secret = 0;           ///< which cluster_secret it has; 0: none
};

struct TransferSpec {
    int id = 0;
    bool read = false;
    int from = 0;  ///< the engine that posts
    int to = 0;    ///< may be the same
    int region = 0;
    int notification = -1;             ///< bytes at least; -1: none
    std::vector<std::uint32_t> sizes;  ///< of its pieces, bytes
};

enum class Verb : std::uint8_t {
    post,        ///< transfer: prepares it where it is not, and posts it; waits first while it is in flight
    wait,        ///< transfer
    release,     ///< transfer, in flight or not
    drive,       ///< passes over all engines
    notify,      ///< from, to, id, bytes
    fault,       ///< engine, rail, setting (KEY=VALUE as of simefactl)
    calm,        ///< engine, rail: takes back everything that `fault` set there
    destroy,     ///< engine
    create,      ///< engine: made again under its name, and introduced to all others
    disconnect,  ///< engine, which forgets the second one
    connect,     ///< engine, which is told of the second one
    deregister,  ///< engine, slot
    enlist,      ///< engine, slot: registers it again
    check,       ///< all memory
    count
};

inline constexpr int everybody = -1;

/// A step that cannot be done (a transfer that does not exist, an engine that is gone) does nothing, so any
/// subset of a schedule's steps is a schedule.
struct Step {
    int thread = 0;  ///< who does it, or `everybody`: all threads meet, then the first does it
    Verb verb = Verb::check;
    std::vector<int> numbers;
    std::string setting;
};

struct Schedule {
    std::uint64_t seed = 0;
    std::string machine = "p5.48xl";
    std::string provider = "efa-direct";
    int threads = 1;
    std::vector<EngineSpec> engines;
    std::vector<TransferSpec> transfers;
    std::vector<Step> steps;
};

/// Pure: the same seed gives the same schedule, on every machine.
[[nodiscard]] Schedule generate(std::uint64_t seed);

[[nodiscard]] std::string to_text(const Schedule& schedule);
[[nodiscard]] std::string to_text(const Step& step);
/// Throws std::runtime_error with the line that is wrong.
[[nodiscard]] Schedule parse_schedule(std::string_view text);

}  // namespace railyard::fault
