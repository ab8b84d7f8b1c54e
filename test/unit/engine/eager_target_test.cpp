// Where small WRITEs go that come in messages: to memory that takes them, whole, and once. What small READs
// are answered: as it was when the notification was delivered, however often it is asked for.
#include "engine/eager_target.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "engine/eager_message.h"
#include "failing_new.h"
#include "log_lines.h"

namespace railyard {
namespace {

class EagerTargetTest : public testing::Test {
  protected:
    static constexpr std::uint64_t sender = 77, token = 5;

    EagerTargetTest() {
        region_->address = address(0);
        region_->length = 64;  // the bytes behind are nobody's
        region_->token = token;
        target_.add(region_);
    }
    [[nodiscard]] std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(bytes_.data()) + offset;
    }
    Status take(std::uint64_t id, std::vector<EagerPiece> pieces, std::string_view data,
                std::uint64_t names = token, std::uint64_t from = sender) {
        const auto [answer, again] = target_.take(
            "alpha", from, encode(EagerMessage{id, {{names}, std::move(pieces)}, data, true, "told"}));
        again_ = again;
        EXPECT_EQ(answer.id, id);
        return answer.status;
    }
    struct Read {
        Status status;
        std::string data;
        bool again = false;
    };
    /// Of 4 bytes from the start, and with "mine" for a notification, unless told otherwise.
    Read give(std::uint64_t id, bool notifies = true, std::uint64_t done_below = 0,
              std::vector<EagerPiece> pieces = {}, std::uint64_t names = token, std::uint64_t from = sender) {
        if (pieces.empty()) pieces = {{address(0), 4, 0}};
        Read read{Status::ok, "what was there before"};
        const auto [answer, again] = target_.give(
            "alpha", from,
            encode(EagerRead{id, done_below, {{names}, std::move(pieces)}, notifies, notifies ? "mine" : ""}),
            read.data);
        EXPECT_EQ(answer.id, id);
        read.status = answer.status;
        read.again = again;
        return read;
    }
    void put(std::size_t offset, std::string_view text) {
        std::copy(text.begin(), text.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    [[nodiscard]] std::string text(std::size_t offset, std::size_t size) const {
        return {bytes_.begin() + static_cast<std::ptrdiff_t>(offset),
                bytes_.begin() + static_cast<std::ptrdiff_t>(offset + size)};
    }
    std::vector<Notification> taken() {
        std::vector<Notification> all;
        inbox_.take(all);
        return all;
    }

    std::vector<char> bytes_ = std::vector<char>(128, '.');
    NotificationInbox inbox_{{1000, 1000, 1000}};
    std::shared_ptr<Registration> region_ = std::make_shared<Registration>();
    EagerTarget target_{inbox_};
    bool again_ = false;  ///< what take() was told last
};

TEST_F(EagerTargetTest, DataGoesToItsPlacesAndTheNotificationToTheInbox) {
    EXPECT_EQ(take(1, {{address(60), 4, 0}, {address(0), 2, 0}}, "lastab"), Status::ok);
    EXPECT_EQ(text(60, 5), "last.");
    EXPECT_EQ(text(0, 3), "ab.");
    const auto got = taken();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].agent, "alpha");
    EXPECT_EQ(got[0].message, "told");
}

TEST_F(EagerTargetTest, WithoutANotificationThereIsNone) {
    const EagerMessage silent{1, {{token}, {{address(0), 2, 0}}}, "ab", false, ""};
    EXPECT_EQ(target_.take("alpha", sender, encode(silent)).answer.status, Status::ok);
    EXPECT_EQ(text(0, 2), "ab");
    EXPECT_TRUE(taken().empty());
}

/// Whoever asks again hears that it was taken, and what has been put there since stays.
TEST_F(EagerTargetTest, WhatComesAgainIsTakenOnce) {
    EXPECT_EQ(take(1, {{address(0), 3, 0}}, "old"), Status::ok);
    EXPECT_EQ(take(2, {{address(0), 3, 0}}, "new"), Status::ok);
    EXPECT_FALSE(again_);
    EXPECT_EQ(take(1, {{address(0), 3, 0}}, "old"), Status::ok);
    EXPECT_TRUE(again_) << "its answer may have been lost";
    EXPECT_EQ(text(0, 3), "new");
    EXPECT_EQ(taken().size(), 2u);
    EXPECT_EQ(take(1, {{address(0), 3, 0}}, "his", token, sender + 1), Status::ok)
        << "another sender's first";
    EXPECT_EQ(text(0, 3), "his");
}

/// Wherever memory runs out, the message is read again.
TEST_F(EagerTargetTest, WhatThereIsNoMemoryForIsTakenOnceAfterAll) {
    long failures = 0;
    for (const bool read : {false, true}) {
        bool failed = true;
        for (long left = 0; failed; ++left) {
            const std::uint64_t from = sender + 1000 * (read ? 2 : 1) + static_cast<std::uint64_t>(left);
            const std::string message =
                read ? encode(EagerRead{1, 0, {{token}, {{address(0), 4, 0}}}, true, "told"})
                     : encode(EagerMessage{1, {{token}, {{address(0), 4, 0}}}, "data", true, "told"});
            std::string data;
            const auto once = [&] {
                return read ? target_.give("alpha", from, message, data).answer
                            : target_.take("alpha", from, message).answer;
            };
            failed = false;
            allocations_left = left;
            try {
                static_cast<void>(once());
            } catch (const std::bad_alloc&) {
                failed = true;
            }
            allocations_left = -1;
            failures += failed ? 1 : 0;
            EXPECT_EQ(once().status, Status::ok) << "allocation " << left;
            EXPECT_EQ(taken().size(), 1u) << "allocation " << left << (read ? " of a READ" : " of a WRITE");
            EXPECT_EQ(read ? data : text(0, 4), read ? text(0, 4) : "data") << "allocation " << left;
        }
    }
    EXPECT_GT(failures, 5) << "hardly anything was tried";
}

TEST_F(EagerTargetTest, NothingOfWhatLeavesTheMemoryIsPut) {
    const test::LogLines lines;
    std::uint64_t id = 0;
    for (const EagerPiece& wrong : {EagerPiece{address(61), 4, 0}, EagerPiece{address(64), 1, 0},
                                    EagerPiece{address(0) - 1, 2, 0}, EagerPiece{8, 4, 0}}) {
        const std::string data = "ab" + std::string(wrong.length, 'x');
        EXPECT_EQ(take(++id, {{address(0), 2, 0}, wrong}, data), Status::invalid_param);
    }
    EXPECT_EQ(text(0, 128), std::string(128, '.'));
    EXPECT_TRUE(taken().empty());
}

/// The same answer again, whatever has become of the memory: the sender may have written it off.
TEST_F(EagerTargetTest, WhatWasRefusedStaysRefused) {
    const test::LogLines lines;
    EXPECT_EQ(take(1, {{address(0), 2, 0}}, "ab", token + 1), Status::invalid_param);
    EXPECT_EQ(lines.count("not registered"), 1);
    auto later = std::make_shared<Registration>();
    later->address = address(0);
    later->length = 64;
    later->token = token + 1;
    target_.add(later);
    EXPECT_EQ(take(1, {{address(0), 2, 0}}, "ab", token + 1), Status::invalid_param);
    EXPECT_EQ(take(2, {{address(0), 2, 0}}, "cd", token + 1), Status::ok);
    EXPECT_EQ(text(0, 2), "cd");
    // A great many refusals later nobody asks any more.
    for (std::uint64_t id = 10; id < 20 + EagerTarget::most_refusals; ++id)
        EXPECT_EQ(take(id, {{address(0), 2, 0}}, "ef", token + 2), Status::invalid_param);
    EXPECT_EQ(text(0, 2), "cd");
    EXPECT_LE(lines.count("a small WRITE was refused"), 12) << "a line each";
    EXPECT_TRUE(lines.contain("(1024 so far)"));
}

/// So many gaps are there that the lowest is closed: whether what is missing there was taken is not known.
TEST_F(EagerTargetTest, WhatMayHaveBeenTakenIsNotSaidToBe) {
    const test::LogLines lines;
    std::uint64_t id = 0;
    for (int i = 0; i < 1030; ++i) {
        id += 2;
        EXPECT_EQ(take(id, {{address(0), 4, 0}}, "many"), Status::ok);
        taken();
    }
    EXPECT_EQ(take(3, {{address(0), 4, 0}}, "late"), Status::backend);
    EXPECT_EQ(give(5).status, Status::backend);
    EXPECT_EQ(lines.count("not known any more"), 2);
    EXPECT_TRUE(taken().empty());
    EXPECT_EQ(give(7, false).data, "many") << "a READ that tells nobody may be asked for at any time";
    EXPECT_EQ(text(0, 4), "many");
    EXPECT_EQ(take(id, {{address(0), 4, 0}}, "many"), Status::ok) << "this is known";
    EXPECT_EQ(take(id - 1, {{address(0), 4, 0}}, "late"), Status::ok);
    EXPECT_EQ(text(0, 4), "late");
    EXPECT_EQ(taken().size(), 1u);
}

TEST_F(EagerTargetTest, MemoryThatIsGoneOrOnItsWayTakesNothing) {
    const test::LogLines lines;
    region_->revoked.store(true);
    EXPECT_EQ(take(1, {{address(0), 2, 0}}, "ab"), Status::invalid_param);
    region_->revoked.store(false);
    EXPECT_EQ(take(2, {{address(0), 2, 0}}, "ab"), Status::ok);
    target_.remove(*region_);
    EXPECT_EQ(take(3, {{address(0), 2, 0}}, "cd"), Status::invalid_param);
    EXPECT_EQ(text(0, 2), "ab");
    EXPECT_EQ(taken().size(), 1u);
}

TEST_F(EagerTargetTest, ANotificationThatFindsNoRoomIsAnError) {
    const test::LogLines lines;
    std::uint64_t id = 0;
    while (take(++id, {{address(0), 1, 0}}, "x") == Status::ok)
        ASSERT_LT(id, 100u) << "the inbox takes whatever comes";
    EXPECT_GT(id, 2u);
    EXPECT_EQ(lines.count("too many notifications"), 1);
    EXPECT_EQ(taken().size(), id - 1);
    EXPECT_EQ(take(id, {{address(0), 1, 0}}, "x"), Status::not_allowed) << "it was told so";
    EXPECT_EQ(take(id + 1, {{address(0), 1, 0}}, "y"), Status::ok) << "there is room again";
}

/// Who is told that it was refused may take the places for what they were.
TEST_F(EagerTargetTest, WhatIsRefusedForWantOfRoomIsNotPutInItsPlace) {
    const test::LogLines lines;
    const auto data = [](std::uint64_t id) { return std::string(1, static_cast<char>('a' + id % 26)); };
    std::uint64_t id = 0;
    do {
        ++id;
        ASSERT_LT(id, 100u) << "the inbox takes whatever comes";
    } while (take(id, {{address(0), 1, 0}}, data(id)) == Status::ok);
    EXPECT_EQ(text(0, 1), data(id - 1));
}

TEST_F(EagerTargetTest, ReadsAreAnsweredWithWhatIsThere) {
    put(0, "abcd");
    put(60, "last");
    const Read got = give(1, true, 0, {{address(60), 4, 0}, {address(1), 2, 0}});
    EXPECT_EQ(got.status, Status::ok);
    EXPECT_EQ(got.data, "lastbc");
    const auto told = taken();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].agent, "alpha");
    EXPECT_EQ(told[0].message, "mine");
    EXPECT_EQ(give(2, false).data, "abcd");
    EXPECT_TRUE(taken().empty());
}

/// The notification has given the memory back to the application, which may have written to it since.
TEST_F(EagerTargetTest, ANotifiedReadThatComesAgainIsAnsweredWithWhatItWasThen) {
    const test::LogLines lines;
    put(0, "then");
    EXPECT_EQ(give(3).data, "then");
    EXPECT_EQ(give(4, true, 3).data, "then");
    put(0, "now!");
    EXPECT_EQ(give(3, true, 3).data, "then");
    EXPECT_EQ(give(3, true, 3, {}, token, sender + 1).data, "now!") << "another sender's first";
    EXPECT_EQ(taken().size(), 3u);
    target_.remove(*region_);
    EXPECT_EQ(give(4, true, 3).data, "then") << "it has been taken";
    target_.add(region_);
    // The sender waits for none below 4.
    EXPECT_EQ(give(5, true, 4).data, "now!");
    EXPECT_EQ(give(4, true, 4).data, "then");
    EXPECT_EQ(give(3, true, 3).status, Status::backend);
    EXPECT_EQ(lines.count(), 0) << "it has succeeded: this only comes late";
    EXPECT_EQ(taken().size(), 1u) << "it is not delivered twice, in any case";
}

TEST_F(EagerTargetTest, AReadThatTellsNobodyIsReadAnew) {
    put(0, "then");
    EXPECT_EQ(give(1, false).data, "then");
    put(0, "now!");
    EXPECT_EQ(give(1, false).data, "now!");
    EXPECT_EQ(target_.kept_bytes(), 0u);
}

TEST_F(EagerTargetTest, ReadsOutsideOfRegisteredMemoryAreRefused) {
    const test::LogLines lines;
    EXPECT_EQ(give(1, true, 0, {{address(61), 4, 0}}).status, Status::invalid_param);
    EXPECT_EQ(give(2, true, 0, {{address(0), 4, 0}}, token + 1).status, Status::invalid_param);
    EXPECT_EQ(give(3, false, 0, {{address(0) - 1, 4, 0}}).status, Status::invalid_param);
    EXPECT_EQ(lines.count("a small READ was refused"), 2) << "the third is not worth a line";
    EXPECT_TRUE(taken().empty());
    region_->length = 128;
    EXPECT_EQ(give(1, true, 0, {{address(61), 4, 0}}).status, Status::invalid_param) << "it was told so";
    EXPECT_EQ(target_.kept_bytes(), 0u);
}

/// By whom nothing more is asked: it is bounded all the same.
TEST_F(EagerTargetTest, WhatIsKeptIsBounded) {
    const test::LogLines lines;
    std::vector<char> large(max_eager_data, 'l');
    region_->address = reinterpret_cast<std::uint64_t>(large.data());
    region_->length = large.size();
    const std::vector<EagerPiece> all{{region_->address, max_eager_data, 0}};
    const std::uint64_t rounds = EagerTarget::most_kept / max_eager_data + 10;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        EXPECT_EQ(give(7, true, 0, all, token, round).status, Status::ok);
        EXPECT_LE(target_.kept_bytes(), EagerTarget::most_kept);
        taken();
    }
    EXPECT_GT(target_.kept_bytes(), EagerTarget::most_kept / 2);
    EXPECT_EQ(give(7, true, 0, all, token, rounds).status, Status::ok);
    for (int asked = 0; asked < 2; ++asked) {
        const Read refused = give(7, true, 0, all, token, 1);
        EXPECT_EQ(refused.status, Status::backend) << "the oldest went";
        EXPECT_TRUE(refused.again) << "what it was given may still be on its way";
    }
    const Read never = give(8, true, 0, all, token + 1, 1);
    EXPECT_EQ(never.status, Status::invalid_param);
    EXPECT_FALSE(never.again);
    EXPECT_TRUE(give(8, true, 0, all, token + 1, 1).again) << "the refusal may have been lost";
}

TEST_F(EagerTargetTest, AReadWhoseNotificationFindsNoRoomIsAnError) {
    const test::LogLines lines;
    std::uint64_t id = 0;
    do {
        ++id;
        ASSERT_LT(id, 100u) << "the inbox takes whatever comes";
    } while (give(id, true, id).status == Status::ok);
    EXPECT_EQ(lines.count("too many notifications"), 1);
    EXPECT_EQ(taken().size(), id - 1);
    EXPECT_EQ(give(id, true, id).status, Status::not_allowed) << "it was told so";
    EXPECT_EQ(target_.kept_bytes(), 0u);
}

TEST_F(EagerTargetTest, NonsenseIsRefusedWithAnError) {
    std::string data;
    EXPECT_THROW(static_cast<void>(target_.take("alpha", sender, "nonsense")), Error);
    EXPECT_THROW(static_cast<void>(target_.give("alpha", sender, "nonsense", data)), Error);
}

}  // namespace
}  // namespace railyard
