// HOST:PORT as the command line writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace railyard::bench {

struct HostPort {
    std::string host;  ///< may be empty
    std::uint16_t port = 0;
};

/// "host:1", "[::1]:1" or ":1"; nothing where the text is none of these.
[[nodiscard]] std::optional<HostPort> split_host_port(const std::string& text);
/// The other way round.
[[nodiscard]] std::string join_host_port(const std::string& host, std::uint16_t port);

}  // namespace railyard::bench
