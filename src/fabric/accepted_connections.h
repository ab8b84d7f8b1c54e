// Connections that peers have made to this process: what a key has let in goes on over them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace railyard::fabric {

/// Over sockets a key is looked at where an operation begins: withdrawn meanwhile, it stops nothing that has
/// begun, as long as the connection lasts. These are the connections to some endpoints of ours from some
/// hosts, as they are when this is made. One thread at a time.
class AcceptedConnections {
  public:
    /// Bytes that one has under way in either direction, at most.
    static constexpr std::uint64_t most_under_way = std::uint64_t{64} << 20;

    AcceptedConnections() = default;
    /// To `own`, from the hosts of `peers`: raw socket addresses, as their endpoints' name(). Throws
    /// std::bad_alloc.
    AcceptedConnections(const std::vector<std::string>& own, const std::vector<std::string>& peers);

    /// Nothing goes on that had begun then: each is closed, or has carried that much since.
    [[nodiscard]] bool are_through() noexcept;
    /// Ends one of those that may go on, with all that is under way over it: who made it makes another.
    /// `idle`: one that has carried next to nothing since the call before, as probes are, if there is any.
    enum class Which : std::uint8_t { idle, any };
    void end_one(Which which) noexcept;

  private:
    static constexpr std::uint64_t unseen = UINT64_MAX;
    struct Connection {
        int socket = -1;  ///< may be another file's by now
        ino_t inode = 0;  ///< what it is known by
        std::uint64_t received = 0;
        std::uint64_t sent = 0;       ///< and acknowledged
        std::uint64_t seen = unseen;  ///< of both, when one was last ended
    };
    [[nodiscard]] static bool may_go_on(const Connection& then) noexcept;

    std::vector<Connection> connections_;
};

}  // namespace railyard::fabric
