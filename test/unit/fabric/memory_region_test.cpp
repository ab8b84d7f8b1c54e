// Registration against a scripted domain: what the provider refuses, and what we ask it for.
#include "fabric/memory_region.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/status.h"

namespace railyard::fabric {
namespace memory_region_test {

struct Script {
    std::vector<int> answers;  // to the next registrations; the real provider answers afterwards
    std::vector<std::uint64_t> keys;
    fi_ops_mr* real = nullptr;
};
Script script;

int scripted_register(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region) {
    script.keys.push_back(attr->requested_key);
    if (!script.answers.empty()) {
        const int answer = script.answers.front();
        script.answers.erase(script.answers.begin());
        return answer;
    }
    return script.real->regattr(fid, attr, flags, region);
}

class MemoryRegionTest : public testing::Test {
  protected:
    MemoryRegionTest()
        : device_(
              std::make_shared<const Device>(std::move(discover("tcp", parse_device_filter("lo")).front()))),
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

    MemoryRegion make() {
        return {domain_, endpoint_, {reinterpret_cast<std::uint64_t>(bytes_.data()), bytes_.size()}};
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

TEST_F(MemoryRegionTest, ATakenKeyIsDrawnAnew) {
    script.answers = {-FI_ENOKEY, -FI_ENOKEY};
    EXPECT_TRUE(make());
    ASSERT_EQ(script.keys.size(), 3u);
    EXPECT_NE(script.keys[0], script.keys[1]);
}

}  // namespace memory_region_test
}  // namespace railyard::fabric
