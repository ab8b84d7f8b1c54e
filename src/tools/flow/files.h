// The file that is sent, and the one that is written: pieces at offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railyard::tools::flow {

/// A regular file, read piece by piece. Its size is that at the time it was opened.
class InputFile {
  public:
    /// Throws UsageError.
    explicit InputFile(std::string path);
    ~InputFile();
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    /// The bytes from `offset` on, zeros behind the end; gives how many are the file's. Throws Failure.
    std::size_t read(std::uint64_t offset, std::byte* to, std::size_t room) const;

  private:
    std::string path_;
    std::uint64_t size_ = 0;
    int descriptor_ = -1;
};

/// Empty at first.
class OutputFile {
  public:
    /// Throws UsageError.
    explicit OutputFile(std::string path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    /// Throws Failure.
    void write(std::uint64_t offset, const std::byte* from, std::size_t size);
    /// Gives the file its size, which may be larger than what has been written. Throws Failure.
    void finish(std::uint64_t size);

  private:
    std::string path_;
    int descriptor_ = -1;
};

}  // namespace railyard::tools::flow
