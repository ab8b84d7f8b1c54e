// Another process, and the line to it.
#pragma once

#include <string>

#include "child_process.h"
#include "control.h"

namespace railyard::bench {

namespace detail {
/// Both ends, until either process has taken its own.
class SocketPair {
  public:
    /// Throws Failure.
    SocketPair();
    ~SocketPair();
    SocketPair(const SocketPair&) = delete;
    SocketPair& operator=(const SocketPair&) = delete;
    [[nodiscard]] host::Channel take(bool is_child);

  private:
    int ends_[2];
};
}  // namespace detail

/// Forked as ChildProcess says; what either side sends on its `control`, the other receives.
class ForkedSide {
    detail::SocketPair ends_;

  public:
    explicit ForkedSide(const std::string& name) : child(name), control(ends_.take(child.is_child())) {}

    ChildProcess child;
    Control control;
};

}  // namespace railyard::bench
