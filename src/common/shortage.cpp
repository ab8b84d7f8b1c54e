#include "common/shortage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace railyard {

std::string shortage(const char* or_else) {
    const int probe = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (probe >= 0) {
        close(probe);
        return "";
    }
    if (errno == ENFILE) return "; the machine has no file descriptor left (fs.file-max)";
    if (errno != EMFILE) return "";
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return "; no file descriptor is left (limit " + std::to_string(limit.rlim_cur) +
           "): raise it (`ulimit -n`)" + or_else;
}

bool may_grow_file_to(std::uint64_t bytes) noexcept {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace railyard
