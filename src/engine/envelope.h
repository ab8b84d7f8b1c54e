// The wrapping of everything that travels through the host: magic, kind, version, length, checksum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railyard {

enum class EnvelopeKind : std::uint8_t { connection = 1, memory = 2 };

inline constexpr std::uint8_t wire_version = 4;
/// Of what holds more than earlier versions know: a part for the host rail, or memory whose owner takes small
/// WRITEs in messages.
inline constexpr std::uint8_t extended_version = 5;
/// Of GPU memory that GPUs of other processes of its host may reach.
inline constexpr std::uint8_t shared_version = 6;

[[nodiscard]] std::string seal(EnvelopeKind kind, std::string_view payload,
                               std::uint8_t version = wire_version);
/// The payload inside `sealed`, not copied, and its version, which is wire_version where nobody asks, and
/// else `latest` at most. Throws Error{mismatch} saying what is wrong: not ours, another kind, another
/// version, truncated, damaged, or over `limit` bytes.
[[nodiscard]] std::string_view unseal(EnvelopeKind kind, std::string_view sealed, std::size_t limit,
                                      std::uint8_t* version = nullptr,
                                      std::uint8_t latest = extended_version);

/// Throws Error{mismatch} naming `what` unless `good`: its fields contradict each other.
void require_consistent(bool good, const char* what);

}  // namespace railyard
