// Who is of our cluster: tags over what engines tell each other, made with the secret that they share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/libcrypto.h"

namespace railyard {

/// HMAC-SHA256 (RFC 2104) under a secret, over the digest of libcrypto. What the secret does to the digest is
/// worked out once and kept instead of it: a tag costs the digest of its bytes and two blocks more, and
/// allocates nothing. Any thread.
class MessageAuth {
  public:
    static constexpr std::size_t tag_size = Libcrypto::digest_size;
    using Tag = std::array<unsigned char, tag_size>;
    /// What is signed; part of what the tag is over, so that one cannot stand for the other.
    enum class Use : std::uint8_t { fragment = 1, connection_info = 2 };

    /// Without a secret nothing is signed and nothing loaded. Throws Error{not_supported} that names the
    /// remedy where there is a secret and none of the libraries.
    explicit MessageAuth(std::string_view secret = {},
                         std::span<const char* const> libraries = libcrypto_names);

    /// There is a secret. The functions below are for that case alone.
    [[nodiscard]] bool on() const noexcept { return on_; }
    [[nodiscard]] Tag tag(Use use, std::string_view bytes) const noexcept;
    /// Whether `tag` is that of `bytes`; takes as long whatever is wrong with it.
    [[nodiscard]] bool valid(Use use, std::string_view bytes, std::string_view tag) const noexcept;

  private:
    struct State {
        alignas(8) unsigned char bytes[Libcrypto::state_size] = {};
    };
    [[nodiscard]] State begun_with(const unsigned char* key, unsigned char pad) const noexcept;

    bool on_ = false;
    Libcrypto crypto_;
    State inner_, outer_;  // the digest after the key's inner and outer block
};

}  // namespace railyard
