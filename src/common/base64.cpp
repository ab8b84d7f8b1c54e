#include "common/base64.h"

#include <cstdint>

#include "common/status.h"

namespace railyard {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void refuse() {
    throw Error(Status::mismatch, "not base64");
}

std::uint32_t value_of(char symbol) {
    const std::size_t at = alphabet.find(symbol);
    if (at == std::string_view::npos) refuse();
    return static_cast<std::uint32_t>(at);
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        for (std::size_t k = 0; k < 4; ++k)
            text += k <= count ? alphabet[group >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}

std::string base64_decode(std::string_view text) {
    if (text.size() % 4) refuse();
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
        ++padding;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool pad = i + padding >= text.size();
        group = group << 6 | (pad ? 0 : value_of(text[i]));
        if (i % 4 != 3) continue;
        const std::size_t count = i + 1 == text.size() ? 3 - padding : 3;
        for (std::size_t k = 0; k < 3; ++k) {
            const char byte = static_cast<char>(group >> (16 - 8 * k) & 255);
            if (k < count) {
                bytes += byte;
            } else if (byte) {
                refuse();  // bits that encoding never sets
            }
        }
        group = 0;
    }
    return bytes;
}

}  // namespace railyard
