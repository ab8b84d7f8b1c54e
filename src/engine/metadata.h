// Contents of connection info and memory metadata, to and from bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/shared_memory.h"
#include "rail/work.h"

namespace railyard {

class WireReader;
class WireWriter;

/// Longest agent name that travels.
inline constexpr std::size_t max_agent_name = 1024;
/// Longest raw address of an endpoint.
inline constexpr std::size_t max_address = 256;

struct ConnectionInfo {
    std::string agent;
    std::uint64_t nonce = 0;
    std::string provider;
    std::vector<std::string> rails;  ///< raw endpoint addresses by rail index
    std::string host{};              ///< its host rail's address; empty: it has none
    std::string tag{};               ///< over all of the above, by MessageAuth; empty without a secret
};

struct MemoryInfo {
    std::uint64_t nonce = 0;
    std::string provider;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device_id = 0;
    bool writable = true;
    bool staged = false;       ///< reached through its owner only, who knows it as `token`
    bool needs_flush = false;  ///< after a WRITE its owner has to act, who knows it as `token`
    bool eager = false;        ///< its owner, who knows it as `token`, takes small transfers in messages
    std::uint64_t token = 0;   ///< in any case its owner's host rail's key, if it has one; 0: none
    std::vector<std::uint16_t> rails;  ///< indices, growing; none for zero length and for staged memory
    std::vector<RemoteKey> keys;       ///< in the order of `rails`
    /// Of GPU memory: how GPUs of its host get there; with a token.
    std::optional<cuda::SharedAllocation> shared{};
};

/// Which rails know a memory, and by which keys: a count, then rail, key and base of each. One decoder, so
/// that what a peer may name is checked in one place.
void write_keys(WireWriter& writer, const std::vector<std::uint16_t>& rails,
                const std::vector<RemoteKey>& keys);
/// Rails come in growing order, at most 1024. Throws Error{mismatch} that names `what`.
void read_keys(WireReader& reader, const char* what, std::vector<std::uint16_t>& rails,
               std::vector<RemoteKey>& keys);

/// What the tag of connection info is over.
[[nodiscard]] std::string signed_part(const ConnectionInfo& info);
[[nodiscard]] std::string encode(const ConnectionInfo& info);
[[nodiscard]] std::string encode(const MemoryInfo& info);
/// Hostile input is fine: throws Error{mismatch} with the reason, allocates no more than the input's size
/// warrants.
[[nodiscard]] ConnectionInfo decode_connection(std::string_view sealed);
[[nodiscard]] MemoryInfo decode_memory(std::string_view sealed);

}  // namespace railyard
