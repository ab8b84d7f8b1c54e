// Whoever asked is not there any more when the bytes are to be moved.
#include "requester.h"

namespace railyard::test {
namespace {

/// Over a fabric where the first write to a peer waits for that peer's process.
class VanishedRequesterTest : public RequestTest {
  protected:
    VanishedRequesterTest() : RequestTest({"efa", 1, false}, {{"peer_timeout_ms", "500"}}) {}
};

TEST_F(VanishedRequesterTest, DoesNotKeepTheMemoryAndIsServedWhenItIsBack) {
    say(request(RequestKind::read, {secret_.address, ours(), size, 0, 0}));
    // Nobody drives mallory's rails any more.
    const auto driven = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < driven)
        victim_->progress();
    EXPECT_EQ(std::count(bytes_.begin(), bytes_.end(), 0), static_cast<long>(bytes_.size()))
        << "it was not waited for, and this test shows nothing";
    secret_.drop(*victim_);  // throws while a transfer is in flight on it

    Place another(*victim_, 0, size);
    another.fill(7);
    token_ = decode_memory(victim_->memory_metadata(*another.region)).token;
    EXPECT_EQ(ask(request(RequestKind::read, {another.address, ours(), size, 0, 0})), Status::ok);
    const std::vector<std::uint8_t> content = another.content();
    EXPECT_TRUE(std::equal(content.begin(), content.end(), bytes_.begin()));
}

}  // namespace
}  // namespace railyard::test
