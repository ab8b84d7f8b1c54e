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

/// Of a mapping's range. The kernel calls the file of each memfd_secret so, which has no other path.
bool is_of_secret_memory(const char* line) noexcept {
    const char* const name = std::strchr(line, '/');
    return name &&
           (std::strcmp(name, "/secretmem (deleted)\n") == 0 || std::strcmp(name, "/secretmem\n") == 0);
}

/// VM_IO, VM_PFNMAP or VM_MIXEDMAP.
bool is_of_driver(const char* line) noexcept {
    return std::strncmp(line, "VmFlags:", 8) == 0 &&
           (std::strstr(line, " io ") || std::strstr(line, " pf ") || std::strstr(line, " mm "));
}

/// Calls `take` with each line of the mapping there, that of its range first.
template <class Take>
void read_mapping(const char* smaps, std::uint64_t address, Take&& take) noexcept {
    std::FILE* const maps = std::fopen(smaps, "re");
    if (!maps) return;
    char line[512];
    bool at_start = true, within = false;
    while (std::fgets(line, sizeof(line), maps)) {
        unsigned long long from = 0, to = 0;
        char permissions[5] = {};
        if (at_start && std::sscanf(line, "%llx-%llx %4s", &from, &to, permissions) == 3) {
            if (within) break;
            within = address >= from && address < to;
        }
        if (at_start && within) take(line);
        at_start = std::strchr(line, '\n') != nullptr;
    }
    std::fclose(maps);
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

bool is_kept(std::uint64_t address, const char* smaps) noexcept {
    bool kept = false;
    read_mapping(smaps, address,
                 [&](const char* line) { kept = kept || is_of_secret_memory(line) || is_of_driver(line); });
    return kept;
}

bool is_kept_at(pid_t process, std::uint64_t address) noexcept {
    char smaps[32];
    std::snprintf(smaps, sizeof(smaps), "/proc/%d/smaps", process);
    return is_kept(address, smaps);
}

std::uint64_t page_size_at(std::uint64_t address, const char* smaps) noexcept {
    auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    unsigned long long start = 0, end = 0, huge = 0;
    read_mapping(smaps, address, [&](const char* line) {
        unsigned long long from = 0, to = 0, kilobytes = 0;
        if (std::sscanf(line, "%llx-%llx", &from, &to) == 2) {
            start = from;
            end = to;
        } else if (std::sscanf(line, "KernelPageSize: %llu kB", &kilobytes) == 1) {
            size = kilobytes * 1024;
        } else if (is_transparent_huge(line, kilobytes)) {
            huge += kilobytes * 1024;
        }
    });
    if (huge == 0) return size;
    const std::uint64_t page = transparent_huge_page();
    const std::uint64_t first = (start + page - 1) / page * page, last = end / page * page;
    return last > first && huge >= last - first ? page : size;
}

}  // namespace railyard
