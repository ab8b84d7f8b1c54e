#include "engine/stats_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

#include "common/file_text.h"
#include "common/log.h"
#include "common/shortage.h"
#include "common/status.h"
#include "common/write_all.h"
#include "engine/stats_leftovers.h"

namespace railyard {
namespace {

constexpr std::size_t longest_agent = 64;

std::string file_name_of(const std::string& agent) {
    std::string name = agent.substr(0, longest_agent);
    for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("-_.", c)) c = '_';
    }
    if (!name.empty() && name.front() == '.') name.front() = '_';
    return name;
}

/// Who has written the report at `path`, for a sentence; empty where it is the engine `nonce`. Throws
/// std::bad_alloc.
std::string other_writer(const std::string& path, std::uint64_t nonce) {
    namespace fs = std::filesystem;
    constexpr std::uintmax_t longest = 64 << 20;  // bytes; nobody's pipe or disk is read here
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(path, error)) && fs::file_size(path, error) <= longest) {
        const std::string text = file_text(path);
        try {
            const LiveReport report = parse_live_report(text);
            if (report.nonce == nonce) return {};
            return "agent " + file_name_of(report.agent) + " in process " + std::to_string(report.pid);
        } catch (const Error&) {
        }
    }
    return "something that is no engine";
}

}  // namespace

std::string StatsFile::name(const std::string& pattern, const std::string& agent, std::uint64_t nonce,
                            const char* setting) {
    return name_in(static_cast<std::uint64_t>(getpid()), pattern, agent, nonce, setting);
}

std::string StatsFile::name_in(std::uint64_t process, const std::string& pattern, const std::string& agent,
                               std::uint64_t nonce, const char* setting) {
    std::string path;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%') {
            path += pattern[i];
            continue;
        }
        switch (++i < pattern.size() ? pattern[i] : '\0') {
            case 'p':
                path += std::to_string(process);
                break;
            case 'a':
                path += file_name_of(agent);
                break;
            case 'i':
                path += instance_text(nonce);
                break;
            case '%':
                path += '%';
                break;
            default:
                throw Error(Status::invalid_param,
                            std::string(setting) + " \"" + pattern +
                                "\": after % comes p (process id), a (agent), i (instance) or another %");
        }
    }
    return path;
}

std::string StatsFile::absolute(const std::string& name, const char* setting) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(name, error);
    if (error) {
        throw Error(Status::invalid_param, std::string(setting) + " \"" + name +
                                               "\": there is no working directory for a relative name (" +
                                               error.message() + "); give one that begins with /");
    }
    return path.string();
}

StatsFile::StatsFile(const std::string& pattern, const std::string& agent, std::uint64_t nonce)
    : agent_(agent),
      nonce_(nonce),
      path_(absolute(name(pattern, agent, nonce))),
      temporary_(path_ + "." + instance_text(nonce) + ".tmp"),
      lock_line_(railyard::lock_line()) {
    if (const std::size_t removed = remove_leftovers(pattern, path_)) {
        RAILYARD_LOG(info, agent_.c_str(), "took away %zu statistics files that killed processes have left",
                     removed);
    }
}

StatsFile::~StatsFile() {
    if (written_ && !is_replaced()) unlink(path_.c_str());
    if (locked_ >= 0) close(locked_);
}

void StatsFile::write(const LiveReport& report, std::uint64_t now_ns) noexcept {
    due_at_ = now_ns + interval_ns;
    int error = ENOMEM;
    if (written_ && !shared_ && is_replaced()) warn_of_another();
    try {
        text_.clear();
        to_prometheus(report, text_);
        error = replace();
    } catch (const std::exception&) {
    }
    written_ = written_ || error == 0;
    if (error != 0 && !failing_) {
        RAILYARD_LOG(
            warn, agent_.c_str(),
            "stats_file %s cannot be written: %s%s. Its directory has to be there, with room, and writable "
            "for this process; all else goes on, and it is tried again each second",
            path_.c_str(), std::strerror(error), error == EFBIG ? " (limit: `ulimit -f`)" : "");
    }
    failing_ = error != 0;
}

bool StatsFile::is_replaced() const noexcept {
    struct stat now {};
    // An inode is soon taken again; not with the same time.
    return lstat(path_.c_str(), &now) == 0 &&
           (now.st_ino != last_.st_ino || now.st_dev != last_.st_dev ||
            now.st_mtim.tv_sec != last_.st_mtim.tv_sec || now.st_mtim.tv_nsec != last_.st_mtim.tv_nsec);
}

void StatsFile::warn_of_another() noexcept {
    try {
        const std::string other = other_writer(path_, nonce_);
        if (other.empty()) return;
        shared_ = true;
        RAILYARD_LOG(
            warn, agent_.c_str(),
            "stats_file %s is written by %s, too, and has now the one's report and now the other's. "
            "Give each engine a name of its own: with %%p (process id), %%a (agent) or %%i (instance) "
            "in the setting each makes its own",
            path_.c_str(), other.c_str());
    } catch (const std::exception&) {  // no memory for it: the next time
    }
}

int StatsFile::replace() noexcept {
    if (!may_grow_file_to(lock_line_.size() + text_.size())) return EFBIG;
    const int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    int error = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) error = write_all(fd, lock_line_);
    if (error == 0) error = write_all(fd, text_);
    struct stat made {};
    if (fstat(fd, &made) != 0 && error == 0) error = errno;
    // What only shows when a file is closed, as on a file system of another host.
    const int another = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if ((another < 0 || close(another) != 0) && error == 0) error = errno;
    if (error == 0 && rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
    if (error != 0) {
        unlink(temporary_.c_str());
        close(fd);
        return error;
    }
    last_ = made;
    if (locked_ >= 0) close(locked_);
    locked_ = fd;
    return 0;
}

}  // namespace railyard
