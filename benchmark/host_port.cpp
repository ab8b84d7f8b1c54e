#include "host_port.h"

#include <charconv>

namespace railyard::bench {

std::optional<HostPort> split_host_port(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) return std::nullopt;
    HostPort found{text.substr(0, colon), 0};
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, found.port);
    if (error != std::errc{} || stop != end) return std::nullopt;
    std::string& host = found.host;
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    return found;
}

std::string join_host_port(const std::string& host, std::uint16_t port) {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

}  // namespace railyard::bench
