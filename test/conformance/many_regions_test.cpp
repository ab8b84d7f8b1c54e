// A transfer of many regions, all of which have been deregistered and registered once more: what its next
// post costs.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/transfer.h"
#include "engine_pair.h"
#include "manager/registration.h"

namespace railyard::test {
namespace many_regions_test {

constexpr std::uint64_t page = 4096, piece = 8;

/// Of this thread, so that what else the machine does counts for nothing.
std::uint64_t cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// One handle over `count` regions of a page each.
class ManyRegions {
  public:
    ManyRegions(EnginePair& pair, std::size_t count)
        : pair_(pair), bytes_(count * page), regions_(count), target_(*pair.b, count * piece) {
        for (std::size_t i = 0; i < count; ++i)
            regions_[i] = register_one(i);
        remote_ = pair.publish(target_);
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back({address(i), piece, &regions_[i]});
            to.push_back({target_.address() + i * piece, piece, &remote_});
        }
        transfer_ = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    }
    ~ManyRegions() {
        pair_.a->release(transfer_);
        for (const auto& region : regions_)
            pair_.a->deregister_memory(region);
        pair_.b->deregister_memory(target_.region);
    }
    ManyRegions(const ManyRegions&) = delete;
    ManyRegions& operator=(const ManyRegions&) = delete;

    /// Of its post after all of them were registered once more.
    std::uint64_t cost() {
        for (std::size_t i = 0; i < regions_.size(); ++i) {
            pair_.a->deregister_memory(regions_[i]);
            regions_[i] = register_one(i);
        }
        const std::uint64_t begin = cpu_ns();
        const Status posted = pair_.a->post(*transfer_);
        const std::uint64_t cost = cpu_ns() - begin;
        EXPECT_EQ(posted == Status::in_progress ? pair_.wait(*transfer_) : posted, Status::ok);
        return cost;
    }

  private:
    [[nodiscard]] std::uint64_t address(std::size_t i) const {
        return reinterpret_cast<std::uint64_t>(bytes_.data()) + i * page;
    }
    [[nodiscard]] std::shared_ptr<Registration> register_one(std::size_t i) {
        return pair_.a->register_memory(address(i), page, 0);
    }

    EnginePair& pair_;
    std::vector<std::uint8_t> bytes_;
    std::vector<std::shared_ptr<Registration>> regions_;
    Buffer target_;
    std::shared_ptr<RemoteRegion> remote_;
    Transfer* transfer_ = nullptr;
};

std::uint64_t least_cost(EnginePair& pair, std::size_t count) {
    ManyRegions regions(pair, count);
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 3; ++i)
        least = std::min(least, regions.cost());
    return least;
}

/// Looking through all of them for each took the square of it: 16 times as long for four times as many, and
/// more.
TEST(ManyRegions, FourTimesAsManyTakeAboutFourTimesAsLong) {
    EnginePair pair({"tcp", 1, false});
    const std::uint64_t few = least_cost(pair, 2000), many = least_cost(pair, 8000);
    EXPECT_LT(many, 12 * few) << few << " and " << many << " ns";
}

/// Several registrations that could take the place of each, and some that are larger.
TEST(ManyRegions, EachTakesTheLatestOfItsRangeOrElseTheLatestThatHoldsIt) {
    constexpr std::size_t count = 16;
    EnginePair pair({"tcp", 1, false});
    Buffer source(*pair.a, count * page), target(*pair.b, count * piece);
    std::vector<std::shared_ptr<Registration>> regions, others;
    const auto add = [&](std::size_t i, std::uint64_t pages) {
        return pair.a->register_memory(source.address() + i * page, pages * page, 0);
    };
    for (std::size_t i = 0; i < count; ++i)
        regions.push_back(add(i, 1));
    const auto remote = pair.publish(target);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < count; ++i) {
        from.push_back({source.address() + i * page, piece, &regions[i]});
        to.push_back({target.address() + i * piece, piece, &remote});
    }
    Transfer* const transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    std::vector<const Registration*> wanted(count);
    for (std::size_t i = 0; i + 2 < count; i += 2) {  // the last two are in the one that holds all
        others.push_back(add(i, 1));
        others.push_back(add(i, 1));
        wanted[i] = others.back().get();
        others.push_back(add(i, 2));
        others.push_back(add(i, 2));
        wanted[i + 1] = others.back().get();
    }
    wanted[count - 2] = wanted[count - 1] = source.region.get();
    for (const auto& region : regions)
        pair.a->deregister_memory(region);
    source.bytes[0] = 77;
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_EQ(target.bytes[0], 77);
    ASSERT_EQ(transfer->locals.size(), wanted.size());
    for (std::size_t i = 0; i < count; ++i)
        EXPECT_EQ(transfer->locals[i].get(), wanted[i]) << i;
    pair.a->release(transfer);
    for (const auto& other : others)
        pair.a->deregister_memory(other);
}

}  // namespace many_regions_test
}  // namespace railyard::test
