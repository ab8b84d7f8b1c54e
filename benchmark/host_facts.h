// What a reader of a result must know about the machine.
#pragma once

#include <nlohmann/json.hpp>

namespace railyard::bench {

/// "cpu", "cpus", "memory_bytes", "kernel" and "date" (UTC, ISO 8601). What cannot be read is left out.
[[nodiscard]] nlohmann::json host_facts();

}  // namespace railyard::bench
