// Whether what a program has printed has got where it was to go: a full disk is no success.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace railyard {

/// At the end of a program: its exit status, which is `lost` where standard output has not taken all that was
/// written to it. That is said on standard error.
[[nodiscard]] inline int with_output_written(const char* program, int status, int lost = 1) noexcept {
    const bool earlier = std::ferror(stdout) != 0;
    errno = 0;
    if (std::fflush(stdout) == 0 && !earlier) return status;
    std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", program, errno != 0 ? ": " : "",
                 errno != 0 ? std::strerror(errno) : "");
    return lost;
}

}  // namespace railyard
