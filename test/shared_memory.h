// What shm leaves in /dev/shm when its process is killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace railyard::test {

/// "PID-..." as our endpoints' are called, "PID:..." of others.
inline bool is_shared_memory_of(pid_t process, const std::filesystem::path& file) {
    const std::string name = file.filename(), number = std::to_string(process);
    return name.rfind(number + "-", 0) == 0 || name.rfind(number + ":", 0) == 0;
}

/// Files of its endpoints.
inline std::size_t shared_memory_of(pid_t process) {
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        files += is_shared_memory_of(process, file.path()) ? 1 : 0;
    return files;
}

inline void remove_shared_memory_of(pid_t process) {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm", error)) {
        if (is_shared_memory_of(process, file.path())) std::filesystem::remove(file.path(), error);
    }
}

}  // namespace railyard::test
