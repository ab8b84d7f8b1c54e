// Whether what a program has printed has got where it was to go: a full disk is no success, nor is a pipe
// that nobody reads.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace railyard {

/// First in a program, before it opens anything. What is written to a pipe that nobody reads any more fails
/// from here on instead of ending the program, with whatever else it has to tell, its exit status and what
/// its destructors take away. Of standard input, output and error those that are closed are opened, so that
/// no socket gets such a number, and then all that is printed: what is written to such an output fails.
inline void guard_standard_files() noexcept {
    std::signal(SIGPIPE, SIG_IGN);
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        // The lowest number that is free is this one. Nobody is told of what standard error does not take.
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF)
            static_cast<void>(open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY));
    }
}

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
