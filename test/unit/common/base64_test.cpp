#include "common/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace railyard {
namespace {

bool is_refused(const std::string& text) {
    try {
        static_cast<void>(base64_decode(text));
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch) << text;
        return true;
    }
    return false;
}

TEST(Base64, IsWhatTheStandardSays) {
    const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"},
                                                                   {"\xfb\xff\xbf", "+/+/"}};
    for (const auto& [bytes, text] : vectors) {
        EXPECT_EQ(base64_encode(bytes), text);
        EXPECT_EQ(base64_decode(text), bytes);
    }
}

TEST(Base64, EveryLengthComesBack) {
    std::mt19937 random(64);
    for (std::size_t length = 0; length <= 64; ++length) {
        for (int i = 0; i < 50; ++i) {
            std::string bytes(length, '\0');
            for (char& byte : bytes)
                byte = static_cast<char>(i == 0 ? 0 : i == 1 ? 255 : random());
            const std::string text = base64_encode(bytes);
            EXPECT_EQ(text.size(), (length + 2) / 3 * 4);
            EXPECT_EQ(base64_decode(text), bytes);
        }
    }
}

TEST(Base64, RefusesWhatItNeverMakes) {
    using namespace std::string_literals;
    const std::vector<std::string> bad{
        "A",        "AA",   "AAA",  "AAAAA", "Zm9vY",  "=",       "==",       "===",  // lengths
        "Zm9-",     "Zm9_", "Zm 9", "Zm9\n", "Zm9v\n", "\0AAA"s,  "AAA\0"s,   "\xff\xff\xff\xff",
        "Zm9v    ",  // the alphabet
        "====",     "A===", "Z===", "Zg=v",  "Z=g=",   "=Zg=",    "Zg==Zg==", "Zm8=Zm9v",
        "Zm9vZg=v",                                                  // padding
        "Zh==",     "Zv==", "Z/==", "Zm9=",  "Zm+=",   "Zm9vZh=="};  // bits behind the last byte
    for (const std::string& text : bad)
        EXPECT_TRUE(is_refused(text)) << text;
}

/// There is one text for every bytes: of the 64 last symbols of a padded group, so many are good.
TEST(Base64, HasOneTextForEveryBytes) {
    int one = 0, two = 0;
    for (const char symbol :
         std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
        one += !is_refused(std::string("A") + symbol + "==");
        two += !is_refused(std::string("AA") + symbol + "=");
    }
    EXPECT_EQ(one, 4);
    EXPECT_EQ(two, 16);
}

}  // namespace
}  // namespace railyard
