#include "engine/envelope.h"

#include <gtest/gtest.h>

#include "common/status.h"

namespace railyard {
namespace envelope_test {

std::string refusal(std::string_view sealed, std::size_t limit = 1000) {
    try {
        static_cast<void>(unseal(EnvelopeKind::memory, sealed, limit));
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch);
        return error.what();
    }
    return "";
}

TEST(Envelope, GivesThePayloadBack) {
    const std::string sealed = seal(EnvelopeKind::memory, "payload");
    EXPECT_EQ(unseal(EnvelopeKind::memory, sealed, 1000), "payload");
}

TEST(Envelope, RefusalsSayWhatIsWrong) {
    const std::string sealed = seal(EnvelopeKind::memory, "payload");
    EXPECT_NE(refusal("junk").find("not made by Railyard"), std::string::npos);
    EXPECT_NE(refusal(sealed.substr(0, 10)).find("truncated"), std::string::npos);
    EXPECT_NE(refusal(sealed + "x").find("followed"), std::string::npos);
    EXPECT_NE(refusal(seal(EnvelopeKind::connection, "payload")).find("something else"), std::string::npos);
    EXPECT_NE(refusal(sealed, 6).find("more than 6"), std::string::npos);
    std::string damaged = sealed;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    EXPECT_NE(refusal(damaged).find("damaged"), std::string::npos);
    std::string newer = sealed;
    newer[5] = wire_version + 1;
    EXPECT_NE(refusal(newer).find("version " + std::to_string(wire_version + 1)), std::string::npos);
    const std::string only = "this build reads " + std::to_string(wire_version) + ": run the same";
    EXPECT_NE(refusal(newer).find(only), std::string::npos) << refusal(newer);
    newer[5] = wire_version + 9;
    std::uint8_t found = 0;
    std::string text;
    try {
        static_cast<void>(unseal(EnvelopeKind::memory, newer, 1000, &found, wire_version + 2));
    } catch (const Error& error) {
        text = error.what();
    }
    const std::string range = "reads " + std::to_string(wire_version) + " to " +
                              std::to_string(wire_version + 2) + ": run the same";
    EXPECT_NE(text.find(range), std::string::npos) << text;
}

TEST(Envelope, NoBitMayFlip) {
    const std::string sealed = seal(EnvelopeKind::memory, "payload");
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
        std::string flipped = sealed;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        EXPECT_NE(refusal(flipped), "") << bit;
    }
}

}  // namespace envelope_test
}  // namespace railyard
