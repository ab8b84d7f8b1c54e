// Base64 of RFC 4648, with padding.
#pragma once

#include <string>
#include <string_view>

namespace railyard {

[[nodiscard]] std::string base64_encode(std::string_view bytes);
/// Takes what base64_encode gives and nothing else. Throws Error{mismatch}.
[[nodiscard]] std::string base64_decode(std::string_view text);

}  // namespace railyard
