// A directory like the kernel's /sys/class/infiniband.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace railyard::test {

/// Gone with this.
class RdmaDevices {
  public:
    /// Names, and what their files of the vendor have in them.
    using List = std::vector<std::pair<std::string, std::string>>;

    explicit RdmaDevices(const List& devices) {
        std::string name = std::filesystem::temp_directory_path() / "railyard-rdma-XXXXXX";
        if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
        place_ = name;
        for (const auto& [device, vendor] : devices) {
            std::filesystem::create_directories(place_ / device / "device");
            std::ofstream(place_ / device / "device/vendor") << vendor;
        }
    }
    ~RdmaDevices() { std::filesystem::remove_all(place_); }
    RdmaDevices(const RdmaDevices&) = delete;
    RdmaDevices& operator=(const RdmaDevices&) = delete;
    [[nodiscard]] const std::filesystem::path& place() const noexcept { return place_; }

  private:
    std::filesystem::path place_;
};

}  // namespace railyard::test
