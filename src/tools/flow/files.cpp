// Reading and writing at offsets, whole.
#include "tools/flow/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/flow/failure.h"

namespace railyard::tools::flow {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
    struct stat facts {};
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0) {
        const std::string reason = std::strerror(errno);
        if (descriptor_ >= 0) close(descriptor_);
        throw UsageError("--file " + path_ + ": cannot open it (" + reason +
                         "); name a file that can be read");
    }
    if (!S_ISREG(facts.st_mode)) {
        close(descriptor_);
        throw UsageError("--file " + path_ + ": no regular file; name one, or leave --file out");
    }
    size_ = static_cast<std::uint64_t>(facts.st_size);
}

InputFile::~InputFile() {
    close(descriptor_);
}

std::size_t InputFile::read(std::uint64_t offset, std::byte* to, std::size_t room) const {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(room, size_ > offset ? size_ - offset : 0));
    for (std::size_t done = 0; done < wanted;) {
        const ssize_t got = pread(descriptor_, to + done, wanted - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Failure("--file " + path_ + ": cannot read it: " + std::strerror(errno));
        if (got == 0) throw Failure("--file " + path_ + ": has become shorter while it was sent");
        done += static_cast<std::size_t>(got);
    }
    std::memset(to + wanted, 0, room - wanted);
    return wanted;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        throw UsageError("--output " + path_ + ": cannot create it (" + std::strerror(errno) +
                         "); check the directory and its rights");
    }
}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(std::uint64_t offset, const std::byte* from, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t put = pwrite(descriptor_, from + done, size - done, static_cast<off_t>(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) throw Failure("--output " + path_ + ": cannot write it: " + std::strerror(errno));
        done += static_cast<std::size_t>(put);
    }
}

void OutputFile::finish(std::uint64_t size) {
    const bool cut = ftruncate(descriptor_, static_cast<off_t>(size)) == 0;
    if (close(std::exchange(descriptor_, -1)) != 0 || !cut)
        throw Failure("--output " + path_ + ": cannot write it: " + std::strerror(errno));
}

}  // namespace railyard::tools::flow
