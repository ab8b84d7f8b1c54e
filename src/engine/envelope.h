// The wrapping of everything that travels through the host: magic, kind, version, length, checksum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railyard {

enum class EnvelopeKind : std::uint8_t { connection = 1, memory = 2 };

inline constexpr std::uint8_t wire_version = 4;
/// Of connection info that has a part for the host rail, which earlier versions do not know.
inline constexpr std::uint8_t version_with_host = 5;

[[nodiscard]] std::string seal(EnvelopeKind kind, std::string_view payload,
                               std::uint8_t version = wire_version);
/// The payload inside `sealed`, not copied, and its version. Throws Error{mismatch} saying what is wrong: not
/// ours, another kind, another version, truncated, damaged, or over `limit` bytes.
[[nodiscard]] std::string_view unseal(EnvelopeKind kind, std::string_view sealed, std::size_t limit,
                                      std::uint8_t* version = nullptr);

/// Throws Error{mismatch} naming `what` unless `good`: its fields contradict each other.
void require_consistent(bool good, const char* what);

}  // namespace railyard
