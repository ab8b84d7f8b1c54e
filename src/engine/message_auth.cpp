#include "engine/message_auth.h"

#include <cstring>

#include "common/status.h"

namespace railyard {

MessageAuth::MessageAuth(std::string_view secret, std::span<const char* const> libraries) {
    if (secret.empty()) return;
    const LibcryptoLookup found = find_libcrypto(libraries);
    if (!found.functions) {
        throw Error(Status::not_supported,
                    "cluster_secret is set, and OpenSSL's libcrypto, which signs with it, cannot be used (" +
                        found.absent_because +
                        "): install OpenSSL 3 or 1.1 (Debian: libssl3), or leave cluster_secret empty on "
                        "every engine");
    }
    crypto_ = *found.functions;
    unsigned char key[Libcrypto::block_size] = {};
    if (secret.size() <= sizeof(key)) {
        std::memcpy(key, secret.data(), secret.size());
    } else {
        State state;
        crypto_.sha256_init(state.bytes);
        crypto_.sha256_update(state.bytes, secret.data(), secret.size());
        crypto_.sha256_final(key, state.bytes);
    }
    inner_ = begun_with(key, 0x36);
    outer_ = begun_with(key, 0x5c);
    explicit_bzero(key, sizeof(key));
    on_ = true;
}

MessageAuth::State MessageAuth::begun_with(const unsigned char* key, unsigned char pad) const noexcept {
    unsigned char block[Libcrypto::block_size];
    for (std::size_t i = 0; i < sizeof(block); ++i)
        block[i] = key[i] ^ pad;
    State state;
    crypto_.sha256_init(state.bytes);
    crypto_.sha256_update(state.bytes, block, sizeof(block));
    explicit_bzero(block, sizeof(block));
    return state;
}

MessageAuth::Tag MessageAuth::tag(Use use, std::string_view bytes) const noexcept {
    Tag tag;
    State state = inner_;
    crypto_.sha256_update(state.bytes, &use, sizeof(use));
    crypto_.sha256_update(state.bytes, bytes.data(), bytes.size());
    crypto_.sha256_final(tag.data(), state.bytes);
    state = outer_;
    crypto_.sha256_update(state.bytes, tag.data(), tag.size());
    crypto_.sha256_final(tag.data(), state.bytes);
    return tag;
}

bool MessageAuth::valid(Use use, std::string_view bytes, std::string_view tag) const noexcept {
    const Tag right = this->tag(use, bytes);
    return tag.size() == tag_size && crypto_.memcmp(right.data(), tag.data(), tag_size) == 0;
}

}  // namespace railyard
