// A file in shared memory, mapped once per process.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace simefa {

/// Mapped for reading and writing as long as the object lives. Two users of one file in one process share one
/// mapping, so that tools which watch memory (ThreadSanitizer) see the same addresses. Any thread.
class MappedFile {
  public:
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    /// Opens the file, or creates it with `size` zero bytes (sparse). Throws std::system_error.
    static std::shared_ptr<MappedFile> create(const std::string& path, std::size_t size);
    /// Null when there is no such file or it is smaller than `size`: its owner is gone, or another layout.
    static std::shared_ptr<MappedFile> open(const std::string& path, std::size_t size);

    template <class T>
    [[nodiscard]] T& as() const noexcept {
        return *static_cast<T*>(address_);
    }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

  private:
    MappedFile(std::string path, void* address, std::size_t size) noexcept
        : path_(std::move(path)), address_(address), size_(size) {}
    static std::shared_ptr<MappedFile> map(const std::string& path, std::size_t size, bool create);

    std::string path_;
    void* address_;
    std::size_t size_;
};

}  // namespace simefa
