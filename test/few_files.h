// A process that has hardly any file descriptors left, or none.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace railyard::test {

/// At most `left` more descriptors while it lives. Fills gaps below the highest one in use, too.
class FewFiles {
  public:
    explicit FewFiles(unsigned left) {
        getrlimit(RLIMIT_NOFILE, &old_);
        int highest = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
            highest = std::max(highest, std::stoi(entry.path().filename()));
        for (;;) {
            const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (fd < 0 || fd > highest) {
                close(fd);
                break;
            }
            fillers_.push_back(fd);
        }
        rlimit low = old_;
        low.rlim_cur = static_cast<rlim_t>(highest) + 1 + left;
        setrlimit(RLIMIT_NOFILE, &low);
    }
    ~FewFiles() {
        setrlimit(RLIMIT_NOFILE, &old_);
        for (const int fd : fillers_)
            close(fd);
    }
    FewFiles(const FewFiles&) = delete;
    FewFiles& operator=(const FewFiles&) = delete;

  private:
    rlimit old_{};
    std::vector<int> fillers_;
};

}  // namespace railyard::test
