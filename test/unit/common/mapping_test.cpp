// Sizes of pages, and what is kept from other processes, by a list of mappings as the kernel's.
#include "common/mapping.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace railyard {
namespace mapping_test {

constexpr std::uint64_t start = 0x7f0000200000, huge = std::uint64_t{2} << 20;

class PageSize : public testing::Test {
  protected:
    PageSize() : file_(std::filesystem::temp_directory_path() / ("smaps." + std::to_string(getpid()))) {
        if (std::ifstream size("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"); size) {
            std::uint64_t bytes = huge;
            size >> bytes;
            usual_ = bytes == huge;
        }
    }
    ~PageSize() override { std::filesystem::remove(file_); }
    void SetUp() override {
        if (!usual_) GTEST_SKIP() << "huge pages of another size";
    }
    /// Of a mapping from `from` to `to`, behind and before another that is all in huge pages.
    std::uint64_t at(std::uint64_t address, std::uint64_t from, std::uint64_t to, const std::string& lines) {
        std::ofstream out(file_);
        const std::string other = "KernelPageSize:        4 kB\nAnonHugePages:      2048 kB\n";
        out << "1000000-1200000 rw-p 00000000 00:00 0\n" << other;
        out << std::hex << from << "-" << to << " rw-p 00000000 00:00 0 \nSize:  1 kB\n" << lines;
        out << "7fff00000000-7fff00200000 rw-p 00000000 00:00 0\n" << other;
        out.close();
        return page_size_at(address, file_.c_str());
    }

  private:
    std::filesystem::path file_;
    bool usual_ = true;
};

TEST_F(PageSize, IsTheOneThatTheMappingWasMadeWith) {
    const std::uint64_t end = start + 2 * huge;
    EXPECT_EQ(at(start + 5, start, end, "KernelPageSize:        4 kB\nAnonHugePages:         0 kB\n"), 4096u);
    EXPECT_EQ(at(end - 1, start, end, "KernelPageSize:     2048 kB\nAnonHugePages:         0 kB\n"), huge);
    EXPECT_EQ(at(end, start, end, "KernelPageSize:     2048 kB\n"),
              static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)))
        << "nothing is there";
}

/// One page of the usual size in the middle makes all of them count.
TEST_F(PageSize, IsHugeWhereAllThatCanBeIsInTransparentHugePages) {
    const std::string small = "KernelPageSize:        4 kB\nMMUPageSize:           4 kB\n";
    const std::uint64_t from = start - 4096, to = start + 2 * huge + 4096;
    EXPECT_EQ(at(start, from, to, small + "AnonHugePages:      4096 kB\n"), huge);
    EXPECT_EQ(at(start, from, to, small + "AnonHugePages:      2048 kB\n"), 4096u);
    EXPECT_EQ(at(start, from, to, small + "AnonHugePages:         0 kB\nShmemPmdMapped:     4096 kB\n"),
              huge);
    EXPECT_EQ(at(start, from, to, small + "AnonHugePages:         0 kB\nFilePmdMapped:      2048 kB\n"),
              4096u);
    EXPECT_EQ(at(start, start, start + 4096, small + "AnonHugePages:      2048 kB\n"), 4096u)
        << "nothing can be";
}

TEST_F(PageSize, IsTheUsualOneWhereNothingCanBeRead) {
    const auto usual = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(page_size_at(start, "/no/such"), usual);
    EXPECT_EQ(page_size_at(reinterpret_cast<std::uint64_t>(&usual)), usual);
}

/// Of mappings one behind the other, what each one's lines say.
class KeptMemory : public testing::Test {
  protected:
    ~KeptMemory() override { std::filesystem::remove(file_); }
    bool is_kept_with(const std::string& name, const std::string& flags) {
        std::ofstream out(file_);
        const std::string kept = "VmFlags: rd wr mr mw me io pf mm dd \n";
        out << "1000000-1200000 rw-s 00000000 00:0e 7    /secretmem (deleted)\n" << kept;
        out << "1200000-1400000 rw-s 00000000 00:0e 7    " << name << "\nSize:   1 kB\nVmFlags: " << flags;
        out << " \n1400000-1600000 rw-s 00000000 00:0e 7    /secretmem (deleted)\n" << kept;
        out.close();
        EXPECT_TRUE(is_kept(0x11fffff, file_.c_str()));
        EXPECT_TRUE(is_kept(0x1400000, file_.c_str()));
        EXPECT_FALSE(is_kept(0x1600000, file_.c_str())) << "nothing is there";
        const bool kept_at_start = is_kept(0x1200000, file_.c_str());
        EXPECT_EQ(is_kept(0x13fffff, file_.c_str()), kept_at_start);
        return kept_at_start;
    }

  private:
    const std::filesystem::path file_ =
        std::filesystem::temp_directory_path() / ("kept." + std::to_string(getpid()));
};

TEST_F(KeptMemory, IsThatOfMemfdSecretAndOfDrivers) {
    const std::string usual = "rd wr sh mr mw me ms";
    EXPECT_TRUE(is_kept_with("/secretmem (deleted)", usual + " lo dd"));
    for (const char* flag : {"io", "pf", "mm"})
        EXPECT_TRUE(is_kept_with("/dev/nvidia0", usual + " " + flag + " dd")) << flag;
    EXPECT_FALSE(is_kept_with("/dev/shm/file", usual));
    EXPECT_FALSE(is_kept_with("", usual));
    EXPECT_FALSE(is_kept_with("/tmp/secretmem (deleted)", usual));
    EXPECT_FALSE(is_kept_with("/secretmem (deleted).too", usual));
    EXPECT_FALSE(is_kept(0x1200000, "/no/such"));
}

TEST_F(KeptMemory, IsKnownOfThisProcess) {
    const int mine = 0;
    EXPECT_FALSE(is_kept_at(getpid(), reinterpret_cast<std::uint64_t>(&mine)));
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("[vvar]") == std::string::npos) continue;
        EXPECT_TRUE(is_kept_at(getpid(), std::stoull(line, nullptr, 16))) << "the kernel's own page";
        return;
    }
    GTEST_SKIP() << "the kernel maps no page of its own here";
}

}  // namespace mapping_test
}  // namespace railyard
