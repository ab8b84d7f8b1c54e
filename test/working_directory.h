// Another working directory, for a scope.
#pragma once

#include <filesystem>

namespace railyard::test {

/// Of the whole process. Throws std::filesystem::filesystem_error where there is no such directory.
class WorkingDirectory {
  public:
    explicit WorkingDirectory(const std::filesystem::path& path) : before_(std::filesystem::current_path()) {
        std::filesystem::current_path(path);
    }
    ~WorkingDirectory() {
        std::error_code gone;
        std::filesystem::current_path(before_, gone);
    }
    WorkingDirectory(const WorkingDirectory&) = delete;
    WorkingDirectory& operator=(const WorkingDirectory&) = delete;

  private:
    const std::filesystem::path before_;
};

}  // namespace railyard::test
