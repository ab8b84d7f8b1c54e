// Target infos in files and lines.
#include "tools/flow/info_exchange.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "tools/flow/clocks.h"
#include "tools/flow/failure.h"
#include "tools/flow/flow_objects.h"
#include "tools/flow/stop_flag.h"

namespace railyard::tools::flow {
namespace {

constexpr std::uint64_t look_again_ns = 20'000'000;
constexpr std::size_t longest_line = std::size_t{64} << 20;

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string await_file(const std::string& path, std::uint64_t deadline) {
    while (!stopping()) {
        std::string text = text_of(path);
        if (!text.empty()) return text;
        const std::uint64_t now = now_ns();
        if (now >= deadline) {
            throw Failure("--info " + path +
                          ": not there in time; start the target with --info and this name, "
                          "or raise --connect-timeout");
        }
        sleep_until(std::min(deadline, now + look_again_ns));
    }
    return {};
}

/// Somebody else's file is not ours to remove.
bool holds_an_info(const std::string& path) {
    ryf_target_info* made = nullptr;
    const bool fine = ryf_target_info_from_string(text_of(path).c_str(), &made) == RYF_OK;
    const TargetInfo info(made);
    return fine;
}

/// What is there of standard input, at most one buffer; false at its end.
bool read_some(std::string& line) {
    std::array<char, 4096> buffer;
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR && errno != EAGAIN)
        throw Failure(std::string("cannot read the target info from standard input: ") +
                      std::strerror(errno));
    if (got > 0) line.append(buffer.data(), static_cast<std::size_t>(got));
    return got != 0;
}

std::string await_line(std::uint64_t deadline) {
    std::string line;
    while (!stopping()) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        const bool readable = poll(&input, 1, 100) > 0;
        const bool open = !readable || read_some(line);
        const std::size_t end = line.find('\n');
        if (end != line.npos) return line.substr(0, end);
        if (!open && !line.empty()) return line;
        if (!open || line.size() > longest_line || now_ns() >= deadline) {
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
    std::ofstream file(fresh, std::ios::binary);
    file << text << '\n';
    file.close();
    if (!file || std::rename(fresh.c_str(), path_.c_str()) != 0) {
        const std::string reason = std::strerror(errno);
        unlink(fresh.c_str());
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

std::string await_info(const std::string& path, std::uint64_t deadline) {
    return path.empty() ? await_line(deadline) : await_file(path, deadline);
}

}  // namespace railyard::tools::flow
