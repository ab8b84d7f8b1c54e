// What shm leaves in /dev/shm when its process is killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace railyard::test {

/// Files of its endpoints.
inline std::size_t shared_memory_of(pid_t process) {
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        files += file.path().filename().string().rfind(std::to_string(process) + ":", 0) == 0 ? 1 : 0;
    return files;
}

inline void remove_shared_memory_of(pid_t process) {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm", error)) {
        if (file.path().filename().string().rfind(std::to_string(process) + ":", 0) == 0)
            std::filesystem::remove(file.path(), error);
    }
}

}  // namespace railyard::test
