// What can be set on a simulated NIC while it runs, and what it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace simefa {

/// Position in NicSlot::settings. Zero, the initial value of each, is an undisturbed NIC as fast as the
/// machine.
enum class Setting : unsigned {
    tx_rate,  ///< bytes/s; 0: no limit
    rx_rate,
    latency,             ///< ns
    jitter,              ///< ns, uniform, added to the latency of each operation on its own
    out_of_order,        ///< 1: operations that are due are carried out in random order, the parts of one too
    eagain_probability,  ///< parts per million of the posts that are refused
    eagain_next,         ///< that many posts from now on are refused
    error_code,          ///< prov_errno of injected errors; 0: 13
    error_probability,
    error_next,
    rnr_probability,
    rnr_next,
    link_down,  ///< 1: nothing passes, neither in nor out
    timeout,    ///< ns until an operation that gets no answer fails; 0: default_timeout
    gone,       ///< 1: the device was removed
    late_probability,
    late_next,   ///< that many operations report error_code at once and place their bytes later all the same
    late_delay,  ///< ns
    lost_answer_next,     ///< that many operations are carried out and report 13 all the same
    internal_error_next,  ///< that many progress calls find the device broken: EQ event, or abort without an
                          ///< EQ
    max_batch,            ///< posts that one doorbell covers; 0: default_max_batch
    rdma_read,            ///< 0: as the device generation has it, 1: off, 2: on
    rdma_write,
    accept_unknown,  ///< 1: READ and WRITE of endpoints that the target does not know are let in; devices do
                     ///< not
    wait_objects,    ///< completion queues can be waited for: 0 and 2: on, 1: off, as up to libfabric 2.2
    unsolicited,     ///< writes with immediate data without a receive buffer: 0 and 2: on, 1: off
    gpu_memory,      ///< FI_HMEM; 0 and 2: on, 1: off, as the next three
    gpu_peer_to_peer,
    gpu_address,
    gpu_dmabuf,
    region_pages,  ///< of 4 KiB that a region of a device with WRITE may have; 0: default_region_pages
    close_wait,    ///< ns that closing an endpoint of fabric efa waits at most; 0: default_close_wait
    count
};
inline constexpr std::size_t setting_count = static_cast<std::size_t>(Setting::count);

inline constexpr std::uint64_t default_timeout = 200'000'000;  // ns; real devices take seconds
/// Real ones have no limit; a test is to end, though.
inline constexpr std::uint64_t default_close_wait = 20'000'000'000;  // ns
/// Real ones count the pages that there are, also huge ones.
inline constexpr std::uint64_t default_region_pages = std::uint64_t{1} << 20;
inline constexpr std::uint64_t default_max_batch = 32;

/// Position in NicSlot::counters.
enum class Counter : unsigned {
    writes,
    reads,
    sends,
    received,  ///< messages that arrived
    notices,   ///< writes with immediate data that arrived
    bytes_out,
    bytes_in,
    doorbells,
    completions,
    errors,         ///< operations that ended with an error
    refused_posts,  ///< posts answered with EAGAIN
    not_ready,      ///< attempts that found no receive buffer at the target
    in_flight,      ///< now
    max_in_flight,
    regions,          ///< registered now
    addresses,        ///< in address vectors now
    endpoints,        ///< open now
    receive_buffers,  ///< that the real fabric efa has of its own now
    count
};
inline constexpr std::size_t counter_count = static_cast<std::size_t>(Counter::count);

struct SettingInfo {
    std::string_view name;
    Setting setting;
    double scale;  ///< stored value = what the user says times this
    std::string_view unit, what;
};

[[nodiscard]] std::span<const SettingInfo> setting_table() noexcept;
[[nodiscard]] std::string_view counter_name(Counter counter) noexcept;

/// One change as a user writes it: rate_gbps=40, link=down, error_next=3.
struct Change {
    Setting setting;
    std::uint64_t value;  ///< in the unit of Setting
};

/// Throws std::invalid_argument, saying what is allowed. `rate_gbps` makes two changes; all others one.
struct ChangeList {
    Change changes[2];
    std::size_t size = 0;
};
[[nodiscard]] ChangeList parse_change(std::string_view text);

}  // namespace simefa
