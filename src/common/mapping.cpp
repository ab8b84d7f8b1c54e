#include "common/mapping.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace railyard {

std::optional<Mapping> mapping_at(pid_t process, std::uint64_t address) noexcept {
    char name[32];
    std::snprintf(name, sizeof(name), "/proc/%d/maps", process);
    std::FILE* const maps = std::fopen(name, "re");
    if (!maps) return std::nullopt;
    Mapping found;
    char line[512];
    bool at_start = true;  // of a line; a file's name may be longer than that, and look like a range
    while (!found.exists && std::fgets(line, sizeof(line), maps)) {
        unsigned long long start = 0, end = 0;
        char permissions[5] = {};
        if (at_start && std::sscanf(line, "%llx-%llx %4s", &start, &end, permissions) == 3 &&
            address >= start && address < end)
            found = {true, permissions[0] == 'r', permissions[1] == 'w'};
        at_start = std::strchr(line, '\n') != nullptr;
    }
    std::fclose(maps);
    return found;
}

std::uint64_t page_size_at(std::uint64_t address) noexcept {
    auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::FILE* const maps = std::fopen("/proc/self/smaps", "re");
    if (!maps) return size;
    char line[512];
    bool at_start = true, within = false;
    while (std::fgets(line, sizeof(line), maps)) {
        unsigned long long start = 0, end = 0, kilobytes = 0;
        char permissions[5] = {};
        if (at_start && std::sscanf(line, "%llx-%llx %4s", &start, &end, permissions) == 3) {
            within = address >= start && address < end;
        } else if (at_start && within && std::sscanf(line, "KernelPageSize: %llu kB", &kilobytes) == 1) {
            size = kilobytes * 1024;
            break;
        }
        at_start = std::strchr(line, '\n') != nullptr;
    }
    std::fclose(maps);
    return size;
}

}  // namespace railyard
