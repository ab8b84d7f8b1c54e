// The library's threads in this process, as the kernel lists them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::test {

struct OwnThread {
    std::string name;
    std::filesystem::path task;  ///< its directory below /proc

    /// What follows `key`, its colon included, in its status; empty where that is not in there.
    [[nodiscard]] std::string status(std::string_view key) const {
        std::ifstream file(task / "status");
        std::string word;
        while (file >> word && word != key) {
        }
        return file >> word ? word : std::string();
    }
};

/// Those whose name begins so.
[[nodiscard]] inline std::vector<OwnThread> own_threads(std::string_view name) {
    std::vector<OwnThread> threads;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string found;
        std::getline(std::ifstream(task.path() / "comm"), found);
        if (found.starts_with(name)) threads.push_back({found, task.path()});
    }
    return threads;
}

}  // namespace railyard::test
