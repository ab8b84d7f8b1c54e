// Which run of which kernel this is: equal for all processes of one host.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

namespace railyard {

using BootId = std::array<std::uint8_t, 16>;

/// As its file says it now; all zero where it does not tell.
[[nodiscard]] inline BootId read_boot_id() noexcept {
    BootId id{};
    std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == nullptr) return id;
    std::size_t digits = 0;
    for (int c = std::fgetc(file); c != EOF && digits < 2 * id.size(); c = std::fgetc(file)) {
        const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0) continue;  // a hyphen
        id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] * 16 + value);
        ++digits;
    }
    std::fclose(file);
    return digits == 2 * id.size() ? id : BootId{};
}

/// Of the running kernel; all zero where it did not tell. Read once: later there may be no descriptor for it.
[[nodiscard]] inline const BootId& boot_id() noexcept {
    static const BootId id = read_boot_id();
    return id;
}

/// True when both ids are of one kernel that has run through since.
[[nodiscard]] inline bool same_boot(const BootId& left, const BootId& right) noexcept {
    return left == right && left != BootId{};
}

}  // namespace railyard
