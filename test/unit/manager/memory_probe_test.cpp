#include "manager/memory_probe.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace railyard {
namespace {

struct Pages {
    explicit Pages(int protection)
        : address(reinterpret_cast<std::uint64_t>(
              mmap(nullptr, 3 * size(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
    ~Pages() { munmap(reinterpret_cast<void*>(address), 3 * size()); }
    static std::uint64_t size() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }
    std::uint64_t address;
};

TEST(MemoryProbe, TellsWritableFromReadOnly) {
    const Pages writable(PROT_READ | PROT_WRITE);
    const Pages read_only(PROT_READ);
    EXPECT_TRUE(is_writable(writable.address, 3 * Pages::size()));
    EXPECT_FALSE(is_writable(read_only.address, 1));
    mprotect(reinterpret_cast<void*>(writable.address + 2 * Pages::size()), Pages::size(), PROT_READ);
    EXPECT_FALSE(is_writable(writable.address, 2 * Pages::size() + 1));
    EXPECT_TRUE(is_writable(writable.address, 2 * Pages::size()));
    EXPECT_TRUE(is_writable(0, 0));
}

TEST(MemoryProbe, TellsWhatIsNotMapped) {
    const Pages pages(PROT_READ);
    EXPECT_TRUE(is_mapped(pages.address + 5, 3 * Pages::size() - 5));
    munmap(reinterpret_cast<void*>(pages.address + 2 * Pages::size()), Pages::size());
    EXPECT_FALSE(is_mapped(pages.address, 3 * Pages::size()));
}

}  // namespace
}  // namespace railyard
