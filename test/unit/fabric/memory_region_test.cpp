// Registration against a scripted domain: what the provider refuses, and what we ask it for.
#include "fabric/memory_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace railyard::fabric {
namespace memory_region_test {

struct Script {
    std::vector<int> answers;  // to the next registrations; the real provider answers afterwards
    std::vector<std::uint64_t> keys;
    fi_ops_mr* real = nullptr;
    // Where regions are bound to endpoints:
    bool binds = false;
    fi_ops of_region{};
    std::vector<const fid*> bound_to;
    std::vector<int> controls;
};
Script script;

int scripted_bind(struct fid*, struct fid* endpoint, std::uint64_t) {
    script.bound_to.push_back(endpoint);
    return 0;
}

int scripted_control(struct fid*, int command, void*) {
    script.controls.push_back(command);
    return 0;
}

int scripted_register(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region) {
    script.keys.push_back(attr->requested_key);
    if (!script.answers.empty()) {
        const int answer = script.answers.front();
        script.answers.erase(script.answers.begin());
        return answer;
    }
    const int rc = script.real->regattr(fid, attr, flags, region);
    if (rc == 0 && script.binds) {
        script.of_region = *(*region)->fid.ops;
        script.of_region.bind = scripted_bind;
        script.of_region.control = scripted_control;
        (*region)->fid.ops = &script.of_region;
    }
    return rc;
}

class MemoryRegionTest : public testing::Test {
  protected:
    MemoryRegionTest() : MemoryRegionTest(std::move(discover("tcp", parse_device_filter("lo")).front())) {}
    explicit MemoryRegionTest(Device&& device)
        : device_(std::make_shared<const Device>(std::move(device))),
          domain_(device_, "rail"),
          queue_(domain_, 64, false),
          addresses_(domain_),
          endpoint_(domain_, queue_, addresses_) {
        script = {};
        script.real = domain_.get()->mr;
        scripted_ = *script.real;
        scripted_.regattr = scripted_register;
        domain_.get()->mr = &scripted_;
    }
    ~MemoryRegionTest() override { domain_.get()->mr = script.real; }

    MemoryRegion make(std::uint64_t wished_key = 0) {
        MemoryRange range{reinterpret_cast<std::uint64_t>(bytes_.data()), bytes_.size()};
        range.key = wished_key;
        return {domain_, endpoint_, range};
    }
    /// With an error that says all of it.
    void expect_refused(const std::vector<std::string>& parts) {
        try {
            make();
            ADD_FAILURE() << "registered";
        } catch (const Error& error) {
            const std::string text = error.what();
            EXPECT_EQ(error.status(), Status::backend);
            for (const std::string& part : parts)
                EXPECT_NE(text.find(part), std::string::npos) << text << " lacks: " << part;
        }
    }

    std::shared_ptr<const Device> device_;
    Domain domain_;
    CompletionQueue queue_;
    AddressVector addresses_;
    Endpoint endpoint_;
    fi_ops_mr scripted_{};
    std::vector<char> bytes_ = std::vector<char>(4096);
};

TEST_F(MemoryRegionTest, OutOfLockedMemoryNamesTheLimitAndTheRemedy) {
    script.answers = {-FI_ENOMEM};
    expect_refused({"ulimit -l", "4096 bytes", "rail"});
    EXPECT_TRUE(make()) << "the domain is of no use after one failure";
}

/// Nothing of it is ever touched.
class ManyPages : public MemoryRegionTest {
  protected:
    static constexpr std::size_t limit = std::size_t{4} << 30;  // a million pages

    explicit ManyPages(bool may_limit_pages = true)
        : MemoryRegionTest(like_efa(may_limit_pages)),
          memory_(mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, -1, 0)) {
        real_ = std::exchange(device_->info->fabric_attr->prov_name, efa_);
    }
    ~ManyPages() override {
        device_->info->fabric_attr->prov_name = real_;
        munmap(memory_, length);
    }
    std::string refusal_of(std::size_t bytes, bool writable = true) {
        script.answers = {-FI_ENOMEM};
        try {
            const MemoryRange range{reinterpret_cast<std::uint64_t>(memory_), bytes, writable};
            const MemoryRegion made(domain_, endpoint_, range);
        } catch (const Error& error) {
            return error.what();
        }
        ADD_FAILURE() << "registered";
        return {};
    }

  private:
    static constexpr std::size_t length = limit + 4096;
    static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    static Device like_efa(bool may_limit_pages) {
        Device device = std::move(discover("tcp", parse_device_filter("lo")).front());
        device.caps.may_limit_pages = may_limit_pages;
        return device;
    }
    void* const memory_;
    char efa_[4] = "efa";
    char* real_ = nullptr;
};

TEST_F(ManyPages, OfOneRegistrationAreNamedWithTheRemedies) {
    const std::string text = refusal_of(limit + 1);
    for (const char* part : {"1048577 pages of 4 KiB", "1048576", "4 GiB", "MAP_HUGETLB", "MADV_HUGEPAGE",
                             "some EFA devices", "#10402", "24 million", "in pieces of at most 4 GiB"})
        EXPECT_NE(text.find(part), std::string::npos) << text << " lacks: " << part;
    rlimit lockable{};
    getrlimit(RLIMIT_MEMLOCK, &lockable);
    EXPECT_EQ(text.find("ulimit") != std::string::npos, lockable.rlim_cur < limit + 1) << text;
    EXPECT_EQ(refusal_of(limit).find("MAP_HUGETLB"), std::string::npos);
    EXPECT_NE(refusal_of(limit + 1, false).find("MAP_HUGETLB"), std::string::npos)
        << "efa asks for write access whatever it is asked for";
}

class ManyPagesOfOldEfa : public ManyPages {
  protected:
    ManyPagesOfOldEfa() : ManyPages(false) {}
};

TEST_F(ManyPagesOfOldEfa, AreNotBlamedWhereTheDeviceHasNoSuchLimit) {
    for (const bool writable : {true, false}) {
        const std::string text = refusal_of(limit + 1, writable);
        EXPECT_EQ(text.find("1048576"), std::string::npos) << text;
        EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
    }
}

TEST_F(MemoryRegionTest, ADeviceWithoutRoomIsNamedWithTheRemedy) {
    for (const int answer : {-FI_ENOSPC, -FI_ENOKEY}) {
        script.answers.assign(16, answer);  // a taken key is drawn anew so often
        expect_refused({"rail", fi_strerror(-answer), "4096 bytes", "register fewer or smaller ranges"});
        script.answers.clear();
        EXPECT_TRUE(make()) << "the domain is of no use after one failure";
    }
}

/// efa asks for write access whatever it is asked for, where the device has RDMA WRITE.
TEST_F(MemoryRegionTest, MemoryThatTheDeviceMayNotTouchIsSaidToBeUnmappedOrReadOnly) {
    script.answers = {-FI_EFAULT};
    expect_refused({"not mapped whole", "PROT_WRITE", "MAP_PRIVATE"});
}

/// The cache of verbs registers for writing whatever it is asked for.
TEST_F(MemoryRegionTest, VerbsIsSaidToTakeReadOnlyMemoryWithoutItsCache) {
    char verbs[] = "verbs;ofi_rxm";
    char* const real = std::exchange(device_->info->fabric_attr->prov_name, verbs);
    script.answers = {-FI_EFAULT};
    expect_refused({"not mapped whole", "PROT_WRITE", "FI_MR_CACHE_MONITOR=disabled"});
    device_->info->fabric_attr->prov_name = real;
    script.answers = {-FI_EFAULT};
    expect_refused({"EFA"});
}

TEST_F(MemoryRegionTest, KeysAreDrawnAtRandomAndNeverTheAddress) {
    std::vector<MemoryRegion> regions;
    for (int i = 0; i < 64; ++i)
        regions.push_back(make());  // one range, many registrations
    const std::set<std::uint64_t> distinct(script.keys.begin(), script.keys.end());
    EXPECT_EQ(distinct.size(), 64u);
    EXPECT_EQ(distinct.count(reinterpret_cast<std::uint64_t>(bytes_.data())), 0u);
    int large = 0;
    for (std::uint64_t key : distinct)
        large += key > UINT32_MAX;
    EXPECT_GT(large, 48) << "64-bit keys should use their bits";
}

/// As cxi has them: registrations hang on an endpoint, and keys of ours have 32 bits, the first hundred of
/// which stand for something else.
class BoundMemoryTest : public MemoryRegionTest {
  protected:
    BoundMemoryTest() : MemoryRegionTest(device()) { script.binds = true; }
    static Device device() {
        Device device = std::move(discover("tcp", parse_device_filter("lo")).front());
        device.caps.endpoint_registration = true;
        device.caps.key_size = 4;
        device.caps.least_key = 100;
        return device;
    }
    void expect_in_range() {
        for (const std::uint64_t key : script.keys) {
            EXPECT_GE(key, 100u);
            EXPECT_LE(key, UINT32_MAX);
        }
    }
};

TEST_F(BoundMemoryTest, IsBoundToTheEndpointAndEnabled) {
    script.answers = {-FI_ENOKEY, -FI_ENOKEY};
    const MemoryRegion region = make();
    EXPECT_EQ(script.bound_to, (std::vector<const fid*>{endpoint_.handle()}));
    EXPECT_EQ(script.controls, (std::vector<int>{FI_ENABLE}));
    ASSERT_EQ(script.keys.size(), 3u) << "a taken key is drawn anew";
    EXPECT_EQ(region.key(), script.keys[2]);
    expect_in_range();
}

TEST_F(BoundMemoryTest, KeysAreNeverOfThoseThatStandForSomethingElse) {
    const MemoryRegion low = make(7), lowest = make((std::uint64_t{1} << 32) + 1), first = make(100);
    ASSERT_EQ(script.keys.size(), 3u);
    EXPECT_EQ(script.keys[2], 100u) << "what is wished for and may be is taken";
    std::vector<MemoryRegion> regions;
    for (int i = 0; i < 64; ++i)
        regions.push_back(make());
    expect_in_range();
    EXPECT_GE(std::set<std::uint64_t>(script.keys.begin(), script.keys.end()).size(), 66u);
}

TEST_F(MemoryRegionTest, ATakenKeyIsDrawnAnew) {
    script.answers = {-FI_ENOKEY, -FI_ENOKEY};
    EXPECT_TRUE(make());
    ASSERT_EQ(script.keys.size(), 3u);
    EXPECT_NE(script.keys[0], script.keys[1]);
}

}  // namespace memory_region_test
}  // namespace railyard::fabric
