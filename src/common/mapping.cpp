#include "common/mapping.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace railyard {
namespace {

/// A line of smaps that says how much of a mapping lies in transparent huge pages.
bool is_transparent_huge(const char* line, unsigned long long& kilobytes) noexcept {
    return std::sscanf(line, "AnonHugePages: %llu kB", &kilobytes) == 1 ||
           std::sscanf(line, "ShmemPmdMapped: %llu kB", &kilobytes) == 1 ||
           std::sscanf(line, "FilePmdMapped: %llu kB", &kilobytes) == 1;
}

std::uint64_t transparent_huge_page() noexcept {
    unsigned long long size = 0;
    if (std::FILE* const file = std::fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re")) {
        if (std::fscanf(file, "%llu", &size) != 1) size = 0;
        std::fclose(file);
    }
    return size ? size : std::uint64_t{2} << 20;
}

}  // namespace

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

std::uint64_t page_size_at(std::uint64_t address, const char* smaps) noexcept {
    auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::FILE* const maps = std::fopen(smaps, "re");
    if (!maps) return size;
    char line[512];
    bool at_start = true, within = false;
    unsigned long long start = 0, end = 0, huge = 0;
    while (std::fgets(line, sizeof(line), maps)) {
        unsigned long long from = 0, to = 0, kilobytes = 0;
        char permissions[5] = {};
        if (at_start && std::sscanf(line, "%llx-%llx %4s", &from, &to, permissions) == 3) {
            if (within) break;
            within = address >= from && address < to;
            start = from;
            end = to;
        } else if (at_start && within && std::sscanf(line, "KernelPageSize: %llu kB", &kilobytes) == 1) {
            size = kilobytes * 1024;
        } else if (at_start && within && is_transparent_huge(line, kilobytes)) {
            huge += kilobytes * 1024;
        }
        at_start = std::strchr(line, '\n') != nullptr;
    }
    std::fclose(maps);
    if (huge == 0) return size;
    const std::uint64_t page = transparent_huge_page();
    const std::uint64_t first = (start + page - 1) / page * page, last = end / page * page;
    return last > first && huge >= last - first ? page : size;
}

}  // namespace railyard
