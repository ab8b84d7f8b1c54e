// The sockets of this process that belong to endpoints: libfabric does not tell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::fabric {

/// Of a raw socket address (as an endpoint's name()): nobody on another host has it.
[[nodiscard]] bool is_loopback(std::string_view address) noexcept;

/// Connected to one of `peers` (raw socket addresses). A number may be another file's by now.
[[nodiscard]] bool leads_to(int socket, const std::vector<std::string>& peers) noexcept;
/// The same, whatever its port there.
[[nodiscard]] bool leads_to_host_of(int socket, const std::vector<std::string>& peers) noexcept;
/// All that are; some hundred nanoseconds for each open file of the process, or, where no descriptor is left
/// to list them by, for each that its limit allows. Throws std::bad_alloc.
[[nodiscard]] std::vector<int> sockets_to(const std::vector<std::string>& peers);
/// All that are bound to the raw socket address `own`: one listens, the others it has accepted.
[[nodiscard]] std::vector<int> sockets_at(const std::string& own);

/// The kernel asks over connections that the listening endpoint `own` accepts from then on whether the other
/// end is there, after a minute in which nothing came: networks forget connections that carry nothing. It
/// ends one after a quarter of an hour without an answer, as hosts that vanish would leave theirs here for
/// ever; no sooner, as then the other end finds out by a transfer that fails. False: nothing listens there.
/// Throws std::bad_alloc.
[[nodiscard]] bool keep_alive(const std::string& own);
/// The kernel has sent something over a connection to one of `peers` more than once, and nothing at all has
/// come from there for `silence_ns` over any: the host, or the network's knowledge of the connections, is
/// gone. One whose program does not look is none of that, as its kernel answers. Throws std::bad_alloc.
[[nodiscard]] bool send_in_vain(const std::vector<std::string>& peers, std::uint64_t silence_ns);

}  // namespace railyard::fabric
