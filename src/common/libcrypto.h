// SHA-256 of OpenSSL's libcrypto, as a table of functions that is filled when somebody needs it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace railyard {

/// The digest's own functions and not libcrypto's HMAC or EVP: these work on a state that is the caller's, so
/// they allocate nothing, take no lock, and need nothing of the library's start and end, which the host's
/// process may be in the middle of.
struct Libcrypto {
    /// Room for the library's SHA256_CTX (112 bytes in 1.1 and 3), which may be copied as bytes.
    static constexpr std::size_t state_size = 128;
    static constexpr std::size_t digest_size = 32;
    static constexpr std::size_t block_size = 64;

    int (*sha256_init)(void* state) = nullptr;
    int (*sha256_update)(void* state, const void* data, std::size_t size) = nullptr;
    int (*sha256_final)(unsigned char* digest, void* state) = nullptr;
    /// 0 for equal bytes; takes the same time for any others.
    int (*memcmp)(const void* a, const void* b, std::size_t size) = nullptr;
};

struct LibcryptoLookup {
    std::optional<Libcrypto> functions;
    std::string absent_because;  ///< where there are none
};

inline constexpr const char* libcrypto_names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};

/// Loads the first of `names` that is there and has the functions; it stays loaded until the process ends.
/// Any thread; repeatable.
[[nodiscard]] LibcryptoLookup find_libcrypto(std::span<const char* const> names = libcrypto_names);

}  // namespace railyard
