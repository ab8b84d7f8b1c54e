// What shm leaves in /dev/shm when its process is killed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace railyard::test {

inline void remove_shared_memory_of(pid_t process) {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm", error)) {
        if (file.path().filename().string().rfind(std::to_string(process) + ":", 0) == 0)
            std::filesystem::remove(file.path(), error);
    }
}

}  // namespace railyard::test
