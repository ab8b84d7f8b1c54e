// Threads and open files of this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>

namespace railyard::test {

struct Left {
    std::size_t threads = count("/proc/self/task");
    std::size_t files = count("/proc/self/fd");  ///< with the directory itself
    static std::size_t count(const char* directory) {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory),
                                                      std::filesystem::directory_iterator{}));
    }
    [[nodiscard]] bool exceeds(const Left& other) const {
        return threads > other.threads || files > other.files;
    }
};

inline std::size_t open_files() {
    return Left::count("/proc/self/fd");
}

/// A joined thread's entry may outlive the join by a moment: one of an engine before `before` may be counted
/// there.
inline bool comes_back_to(const Left& before) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (Left().exceeds(before)) {
        if (std::chrono::steady_clock::now() > end) return false;
    }
    return true;
}

}  // namespace railyard::test
