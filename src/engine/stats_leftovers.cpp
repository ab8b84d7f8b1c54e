#include "engine/stats_leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "common/boot_id.h"
#include "common/descriptor.h"
#include "common/status.h"
#include "engine/live_report.h"
#include "engine/stats_file.h"

namespace railyard {
namespace {

constexpr off_t longest_report = 64 << 20;  // bytes of a report

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { closedir(directory); }
};

/// What every name that `pattern` makes begins and ends with.
struct Ends {
    std::string_view first, last;
};

Ends ends_of(std::string_view pattern) {
    std::size_t behind = 0;
    for (std::size_t i = pattern.find('%'); i < pattern.size(); i = pattern.find('%', i + 2))
        behind = std::min(i + 2, pattern.size());
    return {pattern.substr(0, pattern.find('%')), pattern.substr(behind)};
}

bool is_our_users(const struct stat& file) noexcept {
    return S_ISREG(file.st_mode) && file.st_uid == geteuid() && file.st_size <= longest_report;
}

/// Empty where it cannot be read.
std::string whole_text(int fd, off_t size) {
    std::string text(static_cast<std::size_t>(size), '\0');
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = read(fd, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return {};
        done += static_cast<std::size_t>(count);
    }
    return text;
}

/// `path` is where `pattern` has the engine write whose report this is.
bool is_made_by(const std::string& text, const std::string& pattern, const std::string& path) {
    try {
        const LiveReport report = parse_live_report(text);
        return StatsFile::absolute(StatsFile::name_in(report.pid, pattern, report.agent, report.nonce)) ==
               path;
    } catch (const Error&) {
        return false;
    }
}

/// Whether it was there, and went.
bool remove_leftover(const std::string& pattern, const std::string& path, const std::string& first_line) {
    struct stat file {};
    if (lstat(path.c_str(), &file) != 0 || !is_our_users(file)) return false;
    const Descriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd.get() < 0 || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
    if (fstat(fd.get(), &file) != 0 || !is_our_users(file)) return false;
    const std::string text = whole_text(fd.get(), file.st_size);
    if (!text.starts_with(first_line) || !is_made_by(text, pattern, path)) return false;
    struct stat now {};
    return lstat(path.c_str(), &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino &&
           unlink(path.c_str()) == 0;
}

}  // namespace

std::string lock_line() {
    const BootId boot = boot_id();
    if (!same_boot(boot, boot)) return {};
    std::string line = "# Its writer holds a lock on this file while it lives, in boot ";
    for (const std::uint8_t byte : boot) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", byte);
        line += digits;
    }
    return line + "\n";
}

std::size_t remove_leftovers(const std::string& pattern, const std::string& path) {
    const std::size_t slash = pattern.rfind('/');
    const std::string_view last =
        std::string_view(pattern).substr(slash == std::string::npos ? 0 : slash + 1);
    if (last.find('%') == std::string_view::npos) return 0;  // its own alone
    const Ends ends = ends_of(last);
    const std::string first_line = lock_line();
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::unique_ptr<DIR, CloseDirectory> directory(opendir(folder.c_str()));
    if (!directory || first_line.empty()) return 0;
    std::size_t removed = 0;
    while (const dirent* const entry = readdir(directory.get())) {
        const std::string_view name = entry->d_name;
        if (name.starts_with(ends.first) && name.ends_with(ends.last))
            removed += remove_leftover(pattern, folder + std::string(name), first_line) ? 1 : 0;
    }
    return removed;
}

}  // namespace railyard
