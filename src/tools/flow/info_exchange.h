// How a target info gets from one side to the other: a file that appears whole, or a line.
#pragma once

#include <cstdint>
#include <string>

namespace railyard::tools::flow {

/// A file with a target's info: removed when this is made, so that nobody takes an old one for it, and at the
/// end.
class InfoFile {
  public:
    /// Throws UsageError for what is there and neither empty nor a target info.
    explicit InfoFile(std::string path);
    ~InfoFile();
    InfoFile(const InfoFile&) = delete;
    InfoFile& operator=(const InfoFile&) = delete;

    /// Under another name first, then renamed. Throws Failure.
    void write(const std::string& text);

  private:
    std::string path_;
    bool written_ = false;
};

/// The info as one line on standard output.
void print_info(std::string text);
/// Standard output is a pipe, and nobody reads it any more.
[[nodiscard]] bool output_is_unread() noexcept;

/// Waits until now_ns() is `deadline` for the file, "" for a line on standard input, looking at the stop
/// flag. A file without an end of line at its end is taken at the deadline alone. Throws Failure; empty after
/// a stop signal. Standard input is not read any further once it has given its line, which whoever writes to
/// it sees (output_is_unread).
[[nodiscard]] std::string await_info(const std::string& path, std::uint64_t deadline);

}  // namespace railyard::tools::flow
