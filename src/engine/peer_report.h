// What an engine tells of its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railyard {

/// unknown: loaded, and nothing sent yet. suspect: some of its paths have failed, or transfers to it do not
/// get on. gone: all have, or it was replaced or disconnected.
enum class PeerState : std::uint8_t { unknown, connecting, ready, suspect, gone };
[[nodiscard]] const char* to_string(PeerState state) noexcept;

/// A peer as it is seen now.
struct PeerReport {
    std::string agent;
    std::uint64_t nonce = 0;  ///< its instance
    PeerState state = PeerState::unknown;
    std::size_t paths = 0;   ///< pairs of rails that have been used
    std::size_t failed = 0;  ///< of them, those that are left alone
};

}  // namespace railyard
