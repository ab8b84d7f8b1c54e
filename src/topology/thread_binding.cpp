#include "topology/thread_binding.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace railyard::topology {
namespace {

/// "0-3,8".
std::string ranges_text(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
            ++last;
        text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
        if (last != i) text += "-" + std::to_string(numbers[last]);
        i = last + 1;
    }
    return text;
}

std::string unbound(const std::string& why) {
    return "any CPU (" + why + ")";
}

}  // namespace

std::string bind_thread(pthread_t thread, std::span<const int> cpus, std::size_t least) {
    if (cpus.empty()) return unbound("the topology names none");
    cpu_set_t allowed, wanted;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return unbound(std::strerror(errno));
    CPU_ZERO(&wanted);
    std::vector<int> kept;
    for (const int cpu : cpus) {
        if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
        CPU_SET(static_cast<std::size_t>(cpu), &wanted);
        kept.push_back(cpu);
    }
    if (kept.empty()) return unbound("this process may use none of the node's");
    if (kept.size() < least)
        return unbound("this process may use " + std::to_string(kept.size()) + " of the node's");
    if (const int error = pthread_setaffinity_np(thread, sizeof wanted, &wanted); error != 0)
        return unbound(std::strerror(error));
    return "CPUs " + ranges_text(kept);
}

std::size_t allowed_cpus() noexcept {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
    return static_cast<std::size_t>(CPU_COUNT(&allowed));
}

}  // namespace railyard::topology
