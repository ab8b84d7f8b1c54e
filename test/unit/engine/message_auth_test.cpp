// Tags under the cluster's secret: the algorithm's published examples, and what must not pass.
#include "engine/message_auth.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/status.h"

namespace railyard {
namespace message_auth_test {

std::string hex(const MessageAuth::Tag& tag) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : tag) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

std::string_view as_text(const MessageAuth::Tag& tag) {
    return {reinterpret_cast<const char*>(tag.data()), tag.size()};
}

class MessageAuthTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!find_libcrypto().functions) GTEST_SKIP() << "no libcrypto: " << find_libcrypto().absent_because;
    }
};

constexpr auto fragment = MessageAuth::Use::fragment;
constexpr auto connection_info = MessageAuth::Use::connection_info;

/// Made with Python: hmac.new(key, b"\1" + text, "sha256"); keys below, at and above the digest's block.
TEST_F(MessageAuthTest, IsHmacSha256) {
    const struct {
        std::string key, text, tag;
    } examples[] = {{"kkkkk", "", "d676140f0a7d05a1852ed673db9a6545e7c61de70e07713cadcfa92be05381eb"},
                    {"key", "The quick brown fox jumps over the lazy dog",
                     "8cc084f8ce87ec024757b7604ca5f5290b354861c2e61feea726c1730e890723"},
                    {std::string(64, 'b'), std::string(200, 'x'),
                     "12cfec9a4f404c0d0b307a2ce793c25d40364050533114d910d371320cff22a4"},
                    {[] {
                         std::string key;
                         for (int i = 0; i < 33; ++i)
                             key += "long";
                         return key;
                     }(),
                     "hello", "efeb15b3bdb137dc63267ec5c99b1eeca2801190a482e29c20af140c6ba1af3b"}};
    for (const auto& example : examples)
        EXPECT_EQ(hex(MessageAuth(example.key).tag(fragment, example.text)), example.tag);
}

TEST_F(MessageAuthTest, OtherBytesOtherSecretsAndOtherUsesAreRefused) {
    const MessageAuth ours("a secret"), theirs("b secret");
    const std::string text(1000, 't');
    const MessageAuth::Tag tag = ours.tag(fragment, text);
    EXPECT_TRUE(ours.valid(fragment, text, as_text(tag)));
    EXPECT_TRUE(MessageAuth("a secret").valid(fragment, text, as_text(tag)));
    EXPECT_FALSE(theirs.valid(fragment, text, as_text(tag)));
    EXPECT_FALSE(ours.valid(connection_info, text, as_text(tag)));
    for (std::size_t bit = 0; bit < 8 * tag.size(); ++bit) {
        MessageAuth::Tag flipped = tag;
        flipped[bit / 8] = static_cast<unsigned char>(flipped[bit / 8] ^ (1u << (bit % 8)));
        EXPECT_FALSE(ours.valid(fragment, text, as_text(flipped))) << bit;
    }
    EXPECT_FALSE(ours.valid(fragment, text + "t", as_text(tag)));
    EXPECT_FALSE(ours.valid(fragment, text, as_text(tag).substr(1)));
    EXPECT_FALSE(ours.valid(fragment, text, ""));
}

TEST_F(MessageAuthTest, ManyThreadsUseOne) {
    const MessageAuth auth("a secret");
    std::vector<std::thread> threads;
    std::vector<int> good(4);
    for (std::size_t number = 0; number < good.size(); ++number) {
        threads.emplace_back([&, number] {
            const std::string text(100 + number, static_cast<char>('a' + number));
            const std::string first = hex(auth.tag(fragment, text));
            for (int i = 0; i < 2000; ++i)
                good[number] += hex(auth.tag(fragment, text)) == first;
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(good, std::vector<int>(4, 2000));
}

TEST(MessageAuth, WithoutASecretNothingIsLoaded) {
    static constexpr const char* const nothing[] = {"libnot-there.so.9"};
    EXPECT_FALSE(MessageAuth("", nothing).on());
    EXPECT_FALSE(MessageAuth().on());
}

TEST(MessageAuth, WithoutTheLibraryTheRemedyIsNamed) {
    static constexpr const char* const nothing[] = {"libnot-there.so.9", "libneither.so.1"};
    try {
        const MessageAuth auth("the secret itself", nothing);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.status(), Status::not_supported);
        for (const char* word :
             {"cluster_secret", "libcrypto", "libnot-there.so.9", "libneither.so.1", "libssl3"})
            EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
        EXPECT_EQ(text.find("the secret itself"), std::string::npos) << text;
    }
}

}  // namespace message_auth_test
}  // namespace railyard
