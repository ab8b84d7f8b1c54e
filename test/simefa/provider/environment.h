// What the environment asks of the provider, read once.
#pragma once

#include <cstdint>
#include <string>

namespace simefa {

struct Environment {
    std::string xml;             ///< SIMEFA_XML, else HWLOC_XMLFILE: the machine's picture; empty: no NICs
    std::string host = "host0";  ///< SIMEFA_HOST: which host of the cluster this process plays
    std::string cluster;         ///< SIMEFA_NAMESPACE
    std::string initial;         ///< SIMEFA_SET: settings of this host's NICs, rate_gbps=40,latency_us=10
    std::uint64_t seed = 1;      ///< SIMEFA_SEED
    bool threaded = false;       ///< SIMEFA_THREADED=1: a thread drives the NICs, too
    bool device_rdma_always = true;  ///< SIMEFA_STRICT_API=1 clears it, see device_rdma_allowed
};

/// Throws std::invalid_argument on the first call when a value cannot be used.
const Environment& environment();

}  // namespace simefa
