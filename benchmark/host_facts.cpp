// Facts from /proc and uname.
#include "host_facts.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

namespace railyard::bench {

nlohmann::json host_facts() {
    auto facts = nlohmann::json::object();
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        std::size_t colon = line.find(": ");
        if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
        facts["cpu"] = line.substr(colon + 2);
        break;
    }
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) facts["cpus"] = CPU_COUNT(&cpus);
    long pages = sysconf(_SC_PHYS_PAGES);
    if (pages > 0)
        facts["memory_bytes"] =
            static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    utsname names{};
    if (uname(&names) == 0) facts["kernel"] = names.release;
    std::time_t now = std::time(nullptr);
    std::tm utc{};
    char text[32];
    if (gmtime_r(&now, &utc) != nullptr &&
        std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0) {
        facts["date"] = text;
    }
    return facts;
}

}  // namespace railyard::bench
