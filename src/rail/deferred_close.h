// Endpoints that must not be closed while others of this process may still look at them.
#pragma once

#include <memory>
#include <string_view>

namespace railyard {

/// shm hands endpoints of one process each other's memory without counting: progress on one crashes when it
/// has operations towards another that was closed (seen with libfabric 1.17). So closed endpoints of such
/// providers are kept until the last live one of the process closes. And what is open at exit() leaves its
/// file in /dev/shm, 16 MiB each: the names are taken away then. Any thread.
class DeferredClose {
  public:
    /// One more endpoint of this process is live, at this address. Throws std::bad_alloc: it is not.
    static void opened(std::string_view address);
    /// What is live has another endpoint at this address.
    static void add_name(std::string_view address) noexcept;
    /// One fewer of those that were opened, at this address; `resources` close now or, while others live,
    /// when the last of them does.
    static void closed(std::string_view address, std::shared_ptr<void> resources) noexcept;
    /// Of this process, closed and kept: nobody looks at it any more, and nobody tells those who sent to it.
    static bool has_closed(std::string_view address) noexcept;
};

}  // namespace railyard
