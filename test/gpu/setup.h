// How the suite was started, and what its parts share.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace railyard::gpu {

/// A wait that reaches it is a failure.
inline constexpr auto patience = std::chrono::seconds(60);

struct Setup {
    std::vector<std::string> fabrics{"tcp", "shm"};  ///< between two processes; the first one also within one
    std::string self = "/proc/self/exe";             ///< how this program is started again, as the target
    std::vector<std::string> target_environment;     ///< NAME=VALUE, of the target alone
    std::string json;                                ///< file for the results; empty: none
    unsigned gpu = 0;
    bool local_rail = false;  ///< peers on this host are reached past the fabric
    bool brief = false;       ///< CI's form: figures only show that they can be taken
    int target = -1;          ///< this is the target: the descriptor that leads to the initiator
    std::vector<std::string> bench_options;  ///< of the target, in railyard-bench's words
};

/// Set by main before anything else runs.
[[nodiscard]] const Setup& setup();

}  // namespace railyard::gpu
