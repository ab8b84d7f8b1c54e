#include "fabric/shm_names.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "common/descriptor.h"
#include "common/fork_watch.h"
#include "fault/process/child.h"

namespace railyard::fabric {
namespace shm_names {

namespace fs = std::filesystem;

TEST(ShmNames, AProcessKnowsItsOwnAndNoOthers) {
    const std::string& own = shm_name_of_this_process();
    EXPECT_EQ(own.rfind("fi_shm://" + std::to_string(getpid()) + "-", 0), 0u) << own;
    EXPECT_TRUE(is_of_this_process(own + ":0:0"));
    EXPECT_TRUE(is_of_this_process(own + ":1000:12" + std::string("\0rest", 5)));
    for (const std::string& other :
         {own, own + "0:0:0", std::string(), "fi_shm://" + std::to_string(getpid()) + ":0:0"})
        EXPECT_FALSE(is_of_this_process(other)) << other;
}

TEST(ShmNames, AChildHasANameOfItsOwn) {
    watch_forks();
    const std::string own = shm_name_of_this_process();
    test::Child child(test::Child::End::at_once, [&] {
        return shm_name_of_this_process() != own && !is_of_this_process(own + ":0:0") ? 0 : 1;
    });
    EXPECT_EQ(child.outcome(), "exit 0");
}

TEST(ShmNames, FilesOfOursAreToldFromOthers) {
    EXPECT_TRUE(is_shm_file_of_ours("1-0123456789abcdef:0:0"));
    EXPECT_TRUE(is_shm_file_of_ours("65536-0123456789abcdef:1000:12"));
    for (const char* other :
         {"", "1:0:0", "1-0123456789abcde:0:0", "1-0123456789abcdeg:0:0", "-0123456789abcdef:0:0",
          "1-0123456789abcdef:0", "1-0123456789abcdef:0:0:0", "1-0123456789abcdef0:0:0",
          "1-0123456789abcdef:0:0.old", "x1-0123456789abcdef:0:0"})
        EXPECT_FALSE(is_shm_file_of_ours(other)) << other;
}

class ShmLeftovers : public testing::Test {
  protected:
    void SetUp() override { fs::create_directory(directory_); }
    void TearDown() override { fs::remove_all(directory_); }
    int make(const char* name, off_t size = 4096) const {
        const int file = open((directory_ + "/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        EXPECT_EQ(ftruncate(file, size), 0);
        return file;
    }
    [[nodiscard]] bool has(const char* name) const { return fs::exists(directory_ + "/" + name); }

    static constexpr const char* ours = "1-0123456789abcdef:0:0";
    const std::string directory_ = "/dev/shm/railyard-leftovers-" + std::to_string(getpid());
};

TEST_F(ShmLeftovers, WhatNobodyHasMappedIsRemovedAndNothingElse) {
    { const Descriptor left(make(ours)), others(make("1:0:0")), unknown(make("1-0123456789abcdef")); }
    EXPECT_EQ(remove_shm_leftovers(directory_), 1u);
    EXPECT_FALSE(has(ours));
    EXPECT_TRUE(has("1:0:0"));
    EXPECT_TRUE(has("1-0123456789abcdef"));
    EXPECT_EQ(remove_shm_leftovers(directory_), 0u);
    EXPECT_EQ(remove_shm_leftovers(directory_ + "/none"), 0u);
}

/// As libfabric has it: mapped, and closed.
TEST_F(ShmLeftovers, WhatSomebodyHasStays) {
    {
        const Descriptor open(make(ours));
        EXPECT_EQ(remove_shm_leftovers(directory_), 0u) << "in the moment before it is mapped";
        ASSERT_NE(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open.get(), 0), MAP_FAILED);
    }
    EXPECT_EQ(remove_shm_leftovers(directory_), 0u);
    EXPECT_TRUE(has(ours));
}

TEST_F(ShmLeftovers, WhatIsBeingMadeStays) {
    { const Descriptor empty(make(ours, 0)); }
    EXPECT_EQ(remove_shm_leftovers(directory_), 0u);
    EXPECT_TRUE(has(ours));
}

}  // namespace shm_names
}  // namespace railyard::fabric
