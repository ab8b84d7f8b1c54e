// Target infos in files and lines.
#include "tools/flow/info_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/descriptor.h"
#include "common/write_all.h"
#include "tools/flow/clocks.h"
#include "tools/flow/failure.h"
#include "tools/flow/flow_objects.h"
#include "tools/flow/stop_flag.h"

namespace railyard::tools::flow {
namespace {

constexpr std::uint64_t look_again_ns = 20'000'000;
constexpr std::size_t longest_info = std::size_t{64} << 20;

/// Nothing while it cannot be opened. Does not wait, not even for the writer of a FIFO.
Descriptor opened(const std::string& path) {
    return Descriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

/// What is there, at most one buffer; false at the end. `name`: for messages.
bool read_some(int descriptor, const std::string& name, std::string& text) {
    std::array<char, 4096> buffer;
    const ssize_t got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR && errno != EAGAIN)
        throw Failure("cannot read the target info from " + name + ": " + std::strerror(errno));
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
    return got != 0;
}

/// Of a file.
std::string read_all(int descriptor, const std::string& name) {
    std::string text;
    while (text.size() <= longest_info && read_some(descriptor, name, text)) {
    }
    return text;
}

/// What comes out of a FIFO or the like up to an end of line or the end of its writer; at the deadline what
/// has come by then.
std::string read_line(int descriptor, const std::string& name, std::uint64_t deadline) {
    std::string line;
    while (!stopping()) {
        pollfd input{descriptor, POLLIN, 0};
        const bool open = poll(&input, 1, 20) <= 0 || read_some(descriptor, name, line);
        if (line.ends_with('\n') || line.size() > longest_info || (!open && !line.empty())) return line;
        const std::uint64_t now = now_ns();
        if (now >= deadline) return line;
        if (!open) sleep_until(std::min(deadline, now + look_again_ns));  // until the next one writes
    }
    return {};
}

/// Somebody else's file is not ours to remove.
bool holds_an_info(const std::string& path) {
    const Descriptor file = opened(path);
    if (file.get() < 0) return false;
    const std::string text = read_all(file.get(), path);
    ryf_target_info* made = nullptr;
    const bool fine = ryf_target_info_from_string(text.c_str(), &made) == RYF_OK;
    const TargetInfo info(made);
    return fine;
}

/// Whoever copies a file may not be through: an info ends with an end of line. At the deadline whatever is
/// there has to do.
std::string await_file(const std::string& path, std::uint64_t deadline) {
    const std::string name = "--info " + path;
    while (!stopping()) {
        const Descriptor file = opened(path);
        const int error = file.get() < 0 ? errno : 0;
        struct stat facts {};
        std::string text;
        if (error == 0 && fstat(file.get(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
            text = read_line(file.get(), name, deadline);
            if (!text.empty()) return text;
        } else if (error == 0) {
            text = read_all(file.get(), name);
        }
        const std::uint64_t now = now_ns();
        if (text.ends_with('\n') || (now >= deadline && !text.empty())) return text;
        if (now >= deadline) {
            throw Failure(
                name + ": not there in time" +
                (error == 0 || error == ENOENT ? "" : std::string(" (") + std::strerror(error) + ")") +
                "; start the target with --info and this name, or raise --connect-timeout");
        }
        sleep_until(std::min(deadline, now + look_again_ns));
    }
    return {};
}

std::string await_line(std::uint64_t deadline) {
    std::string line;
    while (!stopping()) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        const bool readable = poll(&input, 1, 100) > 0;
        const bool open = !readable || read_some(STDIN_FILENO, "standard input", line);
        const std::size_t end = line.find('\n');
        if (end != line.npos) return line.substr(0, end);
        if (!open && !line.empty()) return line;
        if (!open || line.size() > longest_info || now_ns() >= deadline) {
            throw Failure(
                "no line with a target info on standard input; give --info, or the line that the target "
                "printed");
        }
    }
    return {};
}

}  // namespace

InfoFile::InfoFile(std::string path) : path_(std::move(path)) {
    struct stat facts {};
    if (lstat(path_.c_str(), &facts) != 0) return;
    if (!S_ISREG(facts.st_mode))
        throw UsageError("--info " + path_ + ": is there and no regular file; name another file");
    if (facts.st_size != 0 && !holds_an_info(path_))
        throw UsageError("--info " + path_ +
                         ": is there and no target info; name another file, or remove it");
    unlink(path_.c_str());
}

InfoFile::~InfoFile() {
    if (written_) unlink(path_.c_str());
}

void InfoFile::write(const std::string& text) {
    const std::string fresh = path_ + "." + std::to_string(getpid());
    unlink(fresh.c_str());  // of one that was killed while it wrote
    Descriptor file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool made = file.get() >= 0;
    int error = made ? write_all(file.get(), text + '\n') : errno;
    if (error == 0 && (close(file.release()) != 0 || std::rename(fresh.c_str(), path_.c_str()) != 0))
        error = errno;
    if (error != 0) {
        const std::string reason = std::strerror(error);
        if (made) unlink(fresh.c_str());
        throw Failure("--info " + path_ + ": cannot write it (" + reason +
                      "); check the directory and its rights");
    }
    written_ = true;
}

void print_info(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');  // between the parts of JSON only
    std::printf("%s\n", text.c_str());
    if (std::fflush(stdout) != 0) throw Failure("cannot write to standard output; give --info");
}

bool output_is_unread() noexcept {
    pollfd output{STDOUT_FILENO, 0, 0};
    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

std::string await_info(const std::string& path, std::uint64_t deadline) {
    if (!path.empty()) return await_file(path, deadline);
    std::string line = await_line(deadline);
    const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (nothing.get() >= 0) dup2(nothing.get(), STDIN_FILENO);
    return line;
}

}  // namespace railyard::tools::flow
