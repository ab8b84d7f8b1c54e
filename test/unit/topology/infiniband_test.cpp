// Where RDMA devices sit, by a tree of links as the kernel's.
#include "topology/infiniband.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace railyard::topology {
namespace {

namespace fs = std::filesystem;

class Infiniband : public testing::Test {
  protected:
    Infiniband() : root_(fs::temp_directory_path() / ("infiniband." + std::to_string(getpid()))) {}
    ~Infiniband() override { fs::remove_all(root_); }
    /// A device in `place` below the devices, as /sys has it.
    void add(const std::string& name, const std::string& place) {
        fs::create_directories(root_ / "devices" / place);
        fs::create_directories(root_ / "class" / name);
        fs::create_directory_symlink(root_ / "devices" / place, root_ / "class" / name / "device");
    }
    std::string pci(const std::string& name) const {
        const auto found = pci_of_infiniband(name, root_ / "class");
        return found ? to_string(*found) : "none";
    }
    const fs::path root_;
};

TEST_F(Infiniband, ADeviceIsWhereItsLinkLeads) {
    add("mlx5_0", "pci0000:50/0000:50:01.0/0000:53:00.1");
    EXPECT_EQ(pci("mlx5_0"), "0000:53:00.1");
    add("mlx5_8", "pci10001:00/10001:00:02.0");
    EXPECT_EQ(pci("mlx5_8"), "10001:00:02.0");
}

TEST_F(Infiniband, APartOfADeviceIsWhereThatIs) {
    add("mlx5_4", "pci0000:50/0000:53:00.0/mlx5_core.sf.2");
    EXPECT_EQ(pci("mlx5_4"), "0000:53:00.0");
}

TEST_F(Infiniband, OthersAreNowhere) {
    add("rxe0", "virtual/net/eth0");
    EXPECT_EQ(pci("rxe0"), "none");
    EXPECT_EQ(pci("mlx5_9"), "none");
    EXPECT_EQ(pci(""), "none");
    EXPECT_EQ(pci_of_infiniband("no such device"), std::nullopt);
}

}  // namespace
}  // namespace railyard::topology
