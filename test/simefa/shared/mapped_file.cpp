#include "shared/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>

namespace simefa {
namespace {

/// A path may be removed and made anew, so files are told apart by what they are.
using FileKey = std::tuple<dev_t, ino_t, std::size_t>;

struct Registry {
    std::mutex mutex;
    std::map<FileKey, std::weak_ptr<MappedFile>> files;
};

/// Never destroyed: libfabric unloads its providers after static destructors have run.
Registry& registry() {
    static Registry* const instance = new Registry;
    return *instance;
}

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

}  // namespace

MappedFile::~MappedFile() {
    munmap(address_, size_);
}

std::shared_ptr<MappedFile> MappedFile::create(const std::string& path, std::size_t size) {
    return map(path, size, true);
}

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path, std::size_t size) {
    return map(path, size, false);
}

std::shared_ptr<MappedFile> MappedFile::map(const std::string& path, std::size_t size, bool create) {
    auto fail = [&](const char* call) -> std::shared_ptr<MappedFile> {
        if (create) throw std::system_error(errno, std::generic_category(), std::string(call) + " " + path);
        return nullptr;
    };
    const Descriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600)};
    if (file.fd < 0) return fail("open");
    struct stat status {};
    if (fstat(file.fd, &status) != 0) return fail("fstat");
    if (static_cast<std::size_t>(status.st_size) < size &&
        (!create || ftruncate(file.fd, static_cast<off_t>(size)) != 0)) {
        return fail("ftruncate");
    }
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    std::erase_if(known.files, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<MappedFile>& slot = known.files[{status.st_dev, status.st_ino, size}];
    if (auto existing = slot.lock()) return existing;
    void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (address == MAP_FAILED) return fail("mmap");
    std::shared_ptr<MappedFile> mapped(new MappedFile(path, address, size));
    slot = mapped;
    return mapped;
}

}  // namespace simefa
