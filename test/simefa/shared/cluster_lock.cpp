#include "shared/cluster_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace simefa {
namespace {

constexpr const char* lock_file = "/lock";

bool still_there(int descriptor) noexcept {
    struct stat status {};
    return fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

ClusterLock::ClusterLock(const std::string& directory) {
    auto fail = [&](const char* call) {
        throw std::system_error(errno, std::generic_category(), std::string(call) + " " + directory);
    };
    for (;;) {
        if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) fail("mkdir");
        descriptor_ = open((directory + lock_file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (descriptor_ < 0) {
            if (errno == ENOENT) continue;  // removed since mkdir
            fail("open the lock in");
        }
        while (flock(descriptor_, LOCK_EX) != 0) {
            if (errno != EINTR) fail("lock");
        }
        if (still_there(descriptor_)) return;
        close(descriptor_);  // its last process removed the directory while we waited
    }
}

ClusterLock::~ClusterLock() {
    close(descriptor_);
}

bool ClusterLock::try_lock(const std::string& directory, int& descriptor) noexcept {
    descriptor = open((directory + lock_file).c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return false;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && still_there(descriptor)) return true;
    close(descriptor);
    return false;
}

}  // namespace simefa
