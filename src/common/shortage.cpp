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

}  // namespace railyard
