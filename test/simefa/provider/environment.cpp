#include "provider/environment.h"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "shared/cluster.h"

namespace simefa {
namespace {

std::string value_of(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool flag(const char* name) {
    const std::string value = value_of(name);
    return !value.empty() && value != "0" && value != "no" && value != "off";
}

Environment read_environment() {
    Environment result;
    result.xml = value_of("SIMEFA_XML");
    if (result.xml.empty()) result.xml = value_of("HWLOC_XMLFILE");
    if (const std::string host = value_of("SIMEFA_HOST"); !host.empty()) result.host = host;
    if (result.host.size() >= name_size || result.host.find_first_of("\t\n") != std::string::npos)
        throw std::invalid_argument("SIMEFA_HOST: up to 63 characters, no tabs");
    result.cluster = cluster_name();
    result.initial = value_of("SIMEFA_SET");
    if (const std::string seed = value_of("SIMEFA_SEED"); !seed.empty())
        result.seed = std::strtoull(seed.c_str(), nullptr, 0);
    result.threaded = flag("SIMEFA_THREADED");
    result.device_rdma_always = !flag("SIMEFA_STRICT_API");
    return result;
}

}  // namespace

const Environment& environment() {
    static const Environment* const instance = new Environment(read_environment());
    return *instance;
}

}  // namespace simefa
