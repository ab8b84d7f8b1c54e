// How this test is built.
#pragma once

namespace railyard::test {

/// With AddressSanitizer or ThreadSanitizer, which make everything slower and keep what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace railyard::test
