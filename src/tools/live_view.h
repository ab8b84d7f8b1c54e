// What running engines say of themselves in their statistics files, and at their sockets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/live_report.h"

namespace railyard::tools {

struct LiveFile {
    std::string path;
    LiveReport report;
    std::uint64_t interval_ms =
        0;  ///< that its counters are rates of, a second; 0: they count from the start
};

/// Of a file, a Unix socket or (with a leading @) an abstract one, which is waited for some seconds at most.
/// Throws Error{not_found} where it cannot be read, Error{mismatch} where no engine has written it; both name
/// the file and the remedy.
[[nodiscard]] LiveFile read_live_file(const std::string& path);

/// A line about each engine, and tables of all rails and peers. `now_ms`: since 1970.
[[nodiscard]] std::string live_text(const std::vector<LiveFile>& files, std::uint64_t now_ms);

/// {"engines":[{"file","agent","instance","version","provider","pid","age_ms","interval_ms","rails":[{"name",
/// "load","senders_replaced",...}],"peers":[{"peer","instance","state","paths","failed",...}]}]}; instances
/// in hexadecimal; interval_ms is null for what counts from the start. What follows of a rail or a peer is
/// its traffic, where there is any; rail_json() and peer_json() have its names.
[[nodiscard]] std::string live_json(const std::vector<LiveFile>& files, std::uint64_t now_ms);

}  // namespace railyard::tools
