#include "engine/checked_pieces.h"

#include <gtest/gtest.h>

namespace railyard::checked_pieces_test {
namespace {

constexpr std::uint64_t base = 0x10000, length = 0x1000;

std::shared_ptr<Registration> ours() {
    auto region = std::make_shared<Registration>();
    region->address = base;
    region->length = length;
    return region;
}

std::shared_ptr<RemoteRegion> theirs(const std::string& agent = "beta") {
    auto region = std::make_shared<RemoteRegion>();
    region->agent = agent;
    region->address = 2 * base;
    region->length = length;
    return region;
}

/// Descriptors of 16 bytes each, of two regions of either side; a test spoils what it is about.
class CheckedPieces : public testing::Test {
  protected:
    void add(const std::shared_ptr<Registration>& from, const std::shared_ptr<RemoteRegion>& to,
             std::uint64_t bytes = 16) {
        local_.push_back({base + 16 * local_.size(), bytes, &from});
        remote_.push_back({2 * base + 16 * remote_.size(), bytes, &to});
    }
    std::vector<Piece> check(Work::Kind kind = Work::Kind::write) {
        Transfer transfer;
        transfer.kind = kind;
        Pinned pinned;
        auto pieces = checked_pieces(transfer, local_, remote_, "beta", pinned);
        locals_ = transfer.locals.size();
        remotes_ = transfer.remotes.size();
        return pieces;
    }
    void expect_refused(const std::string& words, Work::Kind kind = Work::Kind::write) {
        try {
            check(kind);
            ADD_FAILURE() << "not refused: " << words;
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), Status::invalid_param);
            EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        }
    }

    std::shared_ptr<Registration> first_ = ours(), second_ = ours();
    std::shared_ptr<RemoteRegion> near_ = theirs(), far_ = theirs();
    std::vector<LocalDescriptor> local_;
    std::vector<RemoteDescriptor> remote_;
    std::size_t locals_ = 0, remotes_ = 0;
};

TEST_F(CheckedPieces, NameTheirRegionsByWhenTheyCame) {
    add(first_, far_);
    add(second_, far_);
    add(first_, near_);
    add(first_, near_);
    const std::vector<Piece> pieces = check();
    ASSERT_EQ(pieces.size(), 4u);
    EXPECT_EQ(locals_, 2u);
    EXPECT_EQ(remotes_, 2u);
    const std::uint32_t local[] = {0, 1, 0, 0}, remote[] = {0, 0, 1, 1};
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(pieces[i].local_region, local[i]) << i;
        EXPECT_EQ(pieces[i].remote_region, remote[i]) << i;
        EXPECT_EQ(pieces[i].local, base + 16 * i);
        EXPECT_EQ(pieces[i].remote, 2 * base + 16 * i);
        EXPECT_EQ(pieces[i].length, 16u);
    }
}

TEST_F(CheckedPieces, EachRegionOfAListIsLookedAt) {
    add(first_, near_);
    add(first_, near_);
    add(second_, far_);
    add(first_, near_);
    EXPECT_EQ(check().size(), 4u);

    second_->revoked = true;
    expect_refused("descriptor 2, local memory was deregistered");
    second_->revoked = false;
    far_->self = second_;
    first_->revoked = true;
    expect_refused("descriptor 0, local memory was deregistered");
    first_->revoked = false;
    far_->self = ours();
    far_->self->revoked = true;
    expect_refused("descriptor 2, remote memory was deregistered");
    far_->self.reset();
    far_->agent = "gamma";
    expect_refused("descriptor 2, remote memory belongs to agent \"gamma\"");
}

TEST_F(CheckedPieces, EachRangeIsLookedAtThoughItsRegionIsTheLastOnes) {
    for (int i = 0; i < 3; ++i)
        add(first_, near_);
    local_[2].address = base + length - 15;
    expect_refused("descriptor 2, local range [0x10ff1, +16) is outside its registration [0x10000, +4096)");
    local_[2].address = base;
    remote_[1].address = 2 * base - 1;
    expect_refused("descriptor 1, remote range");
    remote_[1].address = 2 * base;
    remote_[1].length = 15;
    expect_refused("descriptor 1: 16 bytes locally against 15 remotely");
    remote_.pop_back();
    expect_refused("3 local descriptors against 2 remote ones");
}

TEST_F(CheckedPieces, WhatIsReadOnlyIsNoTargetOfBytes) {
    add(first_, near_, 0);  // moves nothing, and so is no reason to take the next
    add(first_, near_);
    near_->writable = false;
    expect_refused("descriptor 1, remote memory is read-only: a WRITE");
    EXPECT_EQ(check(Work::Kind::read).size(), 2u);
    first_->writable = false;
    expect_refused("descriptor 1, local memory is read-only: a READ", Work::Kind::read);
    local_[1].length = remote_[1].length = 0;
    EXPECT_EQ(check().size(), 2u);
    EXPECT_EQ(check(Work::Kind::read).size(), 2u);
}

TEST_F(CheckedPieces, WithoutARegistrationAreNamed) {
    const std::shared_ptr<RemoteRegion> none;
    add(first_, none);
    expect_refused("descriptor 0, remote memory is not registered");
    local_[0].region = nullptr;
    expect_refused("descriptor 0, local memory is not registered");
}

}  // namespace
}  // namespace railyard::checked_pieces_test
