#include "fabric/shm_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/descriptor.h"
#include "common/fork_watch.h"
#include "common/log.h"
#include "common/random.h"

namespace railyard::fabric {
namespace {

constexpr std::size_t random_digits = 16;

struct Own {
    std::string name;

    Own() {
        char text[64];
        std::snprintf(text, sizeof text, "fi_shm://%d-%016llx", getpid(),
                      static_cast<unsigned long long>(random_u64()));
        name = text;
    }
};

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) noexcept {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/// Takes the number in front away; false: there is none.
bool skip_number(std::string_view& text) noexcept {
    const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
    const auto length = static_cast<std::size_t>(end - text.begin());
    text.remove_prefix(length);
    return length > 0;
}

bool skip(std::string_view& text, char wanted) noexcept {
    if (text.empty() || text.front() != wanted) return false;
    text.remove_prefix(1);
    return true;
}

/// Whoever has it mapped had it open for writing, and the kernel gives no lease on such a file. Of one that
/// would be opened in this moment its opener waits until we close it; we are sent a signal then, which is one
/// that nobody minds instead of SIGIO, which ends processes.
bool nobody_has(int file) noexcept {
    return fcntl(file, F_SETSIG, SIGURG) == 0 && fcntl(file, F_SETLEASE, F_RDLCK) == 0;
}

bool remove_if_left(int directory, const char* name) noexcept {
    const Descriptor file(openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0) return false;
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) return false;
    // One without a byte is perhaps being made: in the kernel it is there a moment before its maker has it.
    if (status.st_size == 0 || !nobody_has(file.get())) return false;
    return unlinkat(directory, name, 0) == 0;
}

}  // namespace

std::uint64_t shm_bytes_wanted() noexcept {
    return shm_endpoint_bytes * static_cast<std::uint64_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

const std::string& shm_name_of_this_process() {
    static constinit OfThisProcess<Own> own;
    return own.get().name;
}

bool is_of_this_process(std::string_view address) {
    const std::string& own = shm_name_of_this_process();
    return address.substr(0, own.size()) == own && address.substr(own.size(), 1) == ":";
}

bool is_shm_file_of_ours(std::string_view file) noexcept {
    if (!skip_number(file) || !skip(file, '-') || file.size() < random_digits) return false;
    const std::string_view random = file.substr(0, random_digits);
    if (!std::all_of(random.begin(), random.end(), is_hex_digit)) return false;
    file.remove_prefix(random_digits);
    return skip(file, ':') && skip_number(file) && skip(file, ':') && skip_number(file) && file.empty();
}

std::size_t remove_shm_leftovers(const std::string& directory) noexcept {
    struct Close {
        void operator()(DIR* open) const noexcept { closedir(open); }
    };
    const std::unique_ptr<DIR, Close> files(opendir(directory.c_str()));
    if (!files) return 0;
    std::size_t removed = 0;
    while (const dirent* const file = readdir(files.get())) {
        if (is_shm_file_of_ours(file->d_name) && remove_if_left(dirfd(files.get()), file->d_name)) ++removed;
    }
    if (removed > 0)
        RAILYARD_LOG(info, "shm", "%zu files of endpoints whose processes were killed removed from %s",
                     removed, directory.c_str());
    return removed;
}

}  // namespace railyard::fabric
