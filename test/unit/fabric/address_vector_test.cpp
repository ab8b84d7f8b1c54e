// Which addresses a rail knows: each inserted into the provider once, whoever asks for it.
#include "fabric/address_vector.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "failing_new.h"
#include "few_files.h"
#include "sanitized.h"

namespace railyard::fabric {
namespace {

/// What is in the provider's table.
struct Counted {
    fi_ops_av* real = nullptr;
    int inside = 0;
    bool refuse = false;
    bool translate = false;
};
Counted counted;

int counted_insert(fid_av* av, const void* address, std::size_t count, fi_addr_t* handle, std::uint64_t flags,
                   void* context) {
    if (counted.refuse) return 0;
    ++counted.inside;
    return counted.real->insert(av, address, count, handle, flags, context);
}

int counted_remove(fid_av* av, fi_addr_t* handle, std::size_t count, std::uint64_t flags) {
    --counted.inside;
    return counted.real->remove(av, handle, count, flags);
}

int counted_lookup(fid_av* av, fi_addr_t handle, void* address, std::size_t* length) {
    const int rc = counted.real->lookup(av, handle, address, length);
    if (counted.translate) static_cast<char*>(address)[sizeof(sockaddr_in) - 1] = 'x';
    return rc;
}

class AddressVectorTest : public testing::Test {
  protected:
    AddressVectorTest()
        : domain_(
              std::make_shared<const Device>(std::move(discover("tcp", parse_device_filter("lo")).front())),
              "rail"),
          vector_(domain_) {
        counted = {vector_.get()->ops};
        operations_ = *counted.real;
        operations_.insert = counted_insert;
        operations_.remove = counted_remove;
        operations_.lookup = counted_lookup;
        vector_.get()->ops = &operations_;
    }
    ~AddressVectorTest() override { vector_.get()->ops = counted.real; }

    static std::string address(unsigned number) {
        sockaddr_in raw{};
        raw.sin_family = AF_INET;
        raw.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (number >> 8));
        raw.sin_port = htons(static_cast<std::uint16_t>(1 + (number & 255)));
        return {reinterpret_cast<const char*>(&raw), sizeof raw};
    }

    Domain domain_;
    AddressVector vector_;
    fi_ops_av operations_{};
};

TEST_F(AddressVectorTest, WhatTheProviderTellsInOtherWordsIsKeptAsItWas) {
    counted.translate = true;
    const fi_addr_t first = vector_.insert(address(7));
    EXPECT_EQ(vector_.insert(address(7)), first);
    EXPECT_EQ(counted.inside, 1);
    EXPECT_EQ(vector_.addresses(), std::vector{address(7)});
    vector_.remove(first);
    vector_.remove(first);
    EXPECT_EQ(counted.inside, 0);
    counted.translate = false;
    EXPECT_EQ(vector_.insert(address(8)), first) << "handles are taken again";
    EXPECT_EQ(vector_.addresses(), std::vector{address(8)});
}

TEST_F(AddressVectorTest, AnAddressIsInsertedOnceAndRemovedByItsLastUser) {
    const fi_addr_t first = vector_.insert(address(7));
    EXPECT_EQ(vector_.insert(address(7)), first);
    EXPECT_EQ(counted.inside, 1);
    vector_.remove(first);
    EXPECT_EQ(counted.inside, 1);
    EXPECT_EQ(vector_.addresses(), std::vector{address(7)});
    vector_.remove(first);
    EXPECT_EQ(counted.inside, 0);
    EXPECT_TRUE(vector_.addresses().empty());
    vector_.remove(first);
    EXPECT_EQ(counted.inside, 0) << "removed twice";
}

/// libfabric's tcp reads at whatever place such a handle names.
TEST_F(AddressVectorTest, WhatWasNeverInsertedIsNotAskedAbout) {
    const fi_addr_t first = vector_.insert(address(7));
    EXPECT_FALSE(vector_.remove(FI_ADDR_NOTAVAIL));
    EXPECT_EQ(counted.inside, 1);
    EXPECT_TRUE(vector_.remove(first));
}

TEST_F(AddressVectorTest, ManyComeAndGoInAnyOrder) {
    std::vector<unsigned> numbers(1000);
    for (unsigned i = 0; i < numbers.size(); ++i)
        numbers[i] = i;
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::vector<fi_addr_t> handles(numbers.size());
    for (const unsigned number : numbers)
        handles[number] = vector_.insert(address(number));
    for (const unsigned number : numbers)
        ASSERT_EQ(vector_.insert(address(number)), handles[number]);
    std::shuffle(numbers.begin(), numbers.end(), random);
    for (const unsigned number : numbers)
        vector_.remove(handles[number]);
    EXPECT_EQ(counted.inside, 1000);
    for (std::size_t left = numbers.size(); left-- > 0;) {
        vector_.remove(handles[numbers[left]]);
        ASSERT_EQ(vector_.addresses().size(), left);
        ASSERT_EQ(counted.inside, static_cast<int>(left));
    }
}

/// Transfers that are under way name their peers by them.
TEST_F(AddressVectorTest, HandlesStayWhenAnotherEndpointTakesANewOne) {
    std::vector<fi_addr_t> handles;
    for (unsigned number = 0; number < 5; ++number)
        handles.push_back(vector_.insert(address(number)));
    const auto at_provider = [&](fi_addr_t handle) {
        std::string bytes(sizeof(sockaddr_in), '\0');
        std::size_t length = bytes.size();
        EXPECT_EQ(fi_av_lookup(vector_.get(), vector_.at_provider(handle), bytes.data(), &length), 0);
        return bytes;
    };
    vector_.remove(handles[1]);
    vector_.remove(handles[3]);
    for (int round = 0; round < 2; ++round) {
        vector_.get()->ops = counted.real;
        vector_.renew();
        for (const unsigned number : {0u, 2u, 4u}) {
            EXPECT_EQ(at_provider(handles[number]), address(number)) << round;
            EXPECT_EQ(vector_.insert(address(number)), handles[number]) << round;
            vector_.remove(handles[number]);
        }
        EXPECT_EQ(vector_.addresses().size(), 3u);
    }
    // Others have handles of their own from there on, and those of the removed ones are taken again.
    for (unsigned number = 10; number < 14; ++number)
        handles.push_back(vector_.insert(address(number)));
    EXPECT_EQ(handles[5], handles[1]);
    EXPECT_EQ(handles[6], handles[3]);
    for (const unsigned number : {0u, 2u, 4u})
        EXPECT_EQ(at_provider(handles[number]), address(number));
    for (unsigned number = 10; number < 14; ++number)
        EXPECT_EQ(at_provider(handles[number - 5]), address(number));
    EXPECT_TRUE(vector_.remove(handles[6]));
    EXPECT_EQ(vector_.insert(address(20)), handles[6]);
    EXPECT_EQ(at_provider(handles[6]), address(20));
}

TEST_F(AddressVectorTest, WhatTheProviderRefusesIsNotKnown) {
    counted.refuse = true;
    EXPECT_THROW(static_cast<void>(vector_.insert(address(1))), Error);
    EXPECT_TRUE(vector_.addresses().empty());
    counted.refuse = false;
    EXPECT_NO_THROW(static_cast<void>(vector_.insert(address(1))));
}

TEST_F(AddressVectorTest, WhatThereIsNoMemoryForIsGivenBack) {
    counted.translate = true;
    static_cast<void>(vector_.insert(address(1)));
    const std::string second = address(2);
    int failures = 0;
    for (bool failed = true; failed; failures += failed ? 1 : 0) {
        failed = false;
        allocations_left = failures;
        try {
            static_cast<void>(vector_.insert(second));
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        allocations_left = -1;
        EXPECT_EQ(counted.inside, failed ? 1 : 2) << "allocation " << failures;
        EXPECT_EQ(vector_.addresses().size(), failed ? 1u : 2u) << "allocation " << failures;
    }
    EXPECT_GE(failures, 2) << "room among the known, and the kept copy";
}

/// What it takes to map a peer's memory, say.
TEST_F(AddressVectorTest, WhatIsRefusedForWantOfADescriptorSaysSo) {
    if (test::sanitized) GTEST_SKIP() << "its looks at exceptions need descriptors of their own";
    counted.refuse = true;
    const auto refusal = [&] {
        try {
            static_cast<void>(vector_.insert(address(1)));
        } catch (const Error& error) {
            return std::pair(error.status(), std::string(error.what()));
        }
        return std::pair(Status::ok, std::string());
    };
    std::pair<Status, std::string> want;
    {
        const test::FewFiles few(0);
        want = refusal();
    }
    EXPECT_EQ(want.first, Status::backend);
    EXPECT_NE(want.second.find("ulimit -n"), std::string::npos) << want.second;
    EXPECT_EQ(want.second.find("ended"), std::string::npos) << want.second;
    const auto [status, text] = refusal();
    EXPECT_EQ(status, Status::remote_disconnect);
    EXPECT_NE(text.find("may have ended"), std::string::npos) << text;
}

/// Of which the provider takes so many in the life of a process, those included that are gone.
TEST(AddressVector, APeerTooManyOverShmIsNotTakenForOneThatHasEnded) {
    auto devices = discover("shm", parse_device_filter(""));
    ASSERT_FALSE(devices.empty());
    const Domain domain(std::make_shared<const Device>(std::move(devices.front())), "rail");
    AddressVector vector(domain);
    const auto address = [](unsigned number) {
        return "fi_shm://" + std::to_string(getpid()) + ":nobody" + std::to_string(number) + '\0';
    };
    constexpr unsigned most = 256;
    for (unsigned number = 0; number < most; ++number)
        vector.remove(vector.insert(address(number)));
    for (int time = 0; time < 2; ++time) {
        try {
            static_cast<void>(vector.insert(address(most)));
            FAIL() << "inserted";
        } catch (const Error& error) {
            const std::string text = error.what();
            EXPECT_EQ(error.status(), Status::backend) << text;
            for (const char* part : {"256 peers", "restart", "provider=tcp"})
                EXPECT_NE(text.find(part), std::string::npos) << text;
        }
    }
}

TEST_F(AddressVectorTest, AnAddressOfAnotherKindIsRefused) {
    try {
        static_cast<void>(vector_.insert(std::string(3, 'x')));
        FAIL() << "inserted";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch);
        EXPECT_NE(std::strstr(error.what(), "3 bytes"), nullptr) << error.what();
    }
}

}  // namespace
}  // namespace railyard::fabric
