// A second process of a test, with a channel to it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

namespace simefa::test {

/// Messages between the two processes; short ones, in order. Waits at most 20 s.
class Channel {
  public:
    explicit Channel(int descriptor) noexcept : descriptor_(descriptor) {}
    void send(const std::string& text);
    std::string receive();

  private:
    int descriptor_;
};

/// Forks; the child runs `body` and ends with its result, or 1 when it throws. The parent must not hold
/// anything of libfabric that the child would use.
class ChildProcess {
  public:
    explicit ChildProcess(const std::function<int(Channel&)>& body);
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    Channel& channel() noexcept { return channel_; }
    void kill() noexcept;
    /// Returns when it has stopped (SIGSTOP); it can still be killed.
    void stop() noexcept;
    /// Exit status, or -1 when a signal ended it.
    int join();

  private:
    int descriptor_ = -1;
    pid_t pid_ = -1;
    Channel channel_{-1};
};

}  // namespace simefa::test
