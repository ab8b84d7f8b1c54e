#include "engine/stats_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>

#include "common/log.h"
#include "common/status.h"

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

}  // namespace

std::string StatsFile::name(const std::string& pattern, const std::string& agent, std::uint64_t nonce,
                            const char* setting) {
    std::string path;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%') {
            path += pattern[i];
            continue;
        }
        switch (++i < pattern.size() ? pattern[i] : '\0') {
            case 'p':
                path += std::to_string(getpid());
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

StatsFile::StatsFile(const std::string& pattern, const std::string& agent, std::uint64_t nonce)
    : agent_(agent),
      path_(name(pattern, agent, nonce)),
      temporary_(path_ + "." + instance_text(nonce) + ".tmp") {}

StatsFile::~StatsFile() {
    if (written_) unlink(path_.c_str());
}

void StatsFile::write(const LiveReport& report, std::uint64_t now_ns) noexcept {
    due_at_ = now_ns + interval_ns;
    int error = ENOMEM;
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
            "stats_file %s cannot be written: %s. Its directory has to be there, with room, and writable "
            "for this process; all else goes on, and it is tried again each second",
            path_.c_str(), std::strerror(error));
    }
    failing_ = error != 0;
}

int StatsFile::replace() const noexcept {
    const int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    int error = 0;
    for (std::size_t done = 0; done < text_.size() && error == 0;) {
        const ssize_t count = ::write(fd, text_.data() + done, text_.size() - done);
        if (count > 0) {
            done += static_cast<std::size_t>(count);
        } else if (count == 0 || errno != EINTR) {
            error = count == 0 ? EIO : errno;
        }
    }
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
    if (error != 0) unlink(temporary_.c_str());
    return error;
}

}  // namespace railyard
