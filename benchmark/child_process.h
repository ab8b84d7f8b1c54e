// The forked side: never outlives this process, always reaped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace railyard::bench {

/// Forked before any thread exists and before libfabric is touched.
class ChildProcess {
  public:
    /// Returns in both processes; see is_child(). The child dies with its parent. `name` is what messages
    /// call it. Throws Failure.
    explicit ChildProcess(std::string name);
    /// In the parent: kills the child if it still runs, and reaps it.
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    /// In a child: those forked before it are not its own.
    void disown() noexcept { pid_ = -1; }

    [[nodiscard]] bool is_child() const noexcept { return pid_ == 0; }
    /// Waits for the child to end by itself; true if it ended with status 0. Says on stderr how else it
    /// ended; without `verbose` only when a signal or the limit ended it.
    bool join(std::chrono::milliseconds limit, bool verbose);

  private:
    const std::string name_;
    pid_t pid_ = -1;
};

}  // namespace railyard::bench
