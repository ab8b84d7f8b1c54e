// GPU memory as a dmabuf: a file descriptor that a NIC's driver can map.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cuda/pointer_info.h"

namespace railyard::cuda {

class PrimaryContext;
struct Device;

/// Whole pages that hold a range: what a dmabuf is asked for. Pure.
struct PageRange {
    std::uint64_t start = 0;
    std::uint64_t length = 0;
};
[[nodiscard]] PageRange pages_of(std::uint64_t start, std::uint64_t length, std::uint64_t page) noexcept;

/// Owns the descriptor. The memory stays the allocator's: closing frees nothing.
class DmaBuf {
  public:
    DmaBuf(int fd, std::uint64_t base) noexcept : fd_(fd), base_(base) {}
    DmaBuf(DmaBuf&& other) noexcept : fd_(std::exchange(other.fd_, -1)), base_(other.base_) {}
    DmaBuf& operator=(DmaBuf&& other) noexcept {
        std::swap(fd_, other.fd_);
        std::swap(base_, other.base_);
        return *this;
    }
    ~DmaBuf();

    [[nodiscard]] int fd() const noexcept { return fd_; }
    /// The address that the descriptor's first byte stands for.
    [[nodiscard]] std::uint64_t base() const noexcept { return base_; }
    /// Where in the descriptor an address of the range lies.
    [[nodiscard]] std::uint64_t offset_of(std::uint64_t address) const noexcept { return address - base_; }

  private:
    int fd_;
    std::uint64_t base_;
};

/// Through which window of the GPU a NIC that is given the descriptor reaches the memory. Where the GPU hangs
/// on its CPU by NVLink-C2C (GH200, GB200) there are two, and a NIC that is given the wrong one notices when
/// data moves; elsewhere BAR1 is the only one, and drivers refuse to be asked for `pcie`, or give the same.
enum class DmaBufMapping : std::uint8_t {
    usual,  ///< the driver's choice: by way of the CPU, where there are two
    pcie,   ///< BAR1, for NICs below a PCIe switch of the GPU's (CUDA 12.8)
};

struct DmaBufExport {
    std::optional<DmaBuf> dmabuf;
    std::string absent_because;
    DmaBufMapping mapping = DmaBufMapping::usual;  ///< that it has
};

/// Of the pages that hold [address, address + length), a range not empty of what `info` describes: NICs map
/// all of a dmabuf. Where the driver refuses these, of the whole allocation, or of all the mappings; where it
/// refuses `mapping` for both, the usual one. None, with the reason, where the device, the driver or the kind
/// of memory has none; throws nothing. The caller's context does not change.
[[nodiscard]] DmaBufExport export_dmabuf(const PrimaryContext& context, const Device& device,
                                         const PointerInfo& info, std::uint64_t address, std::uint64_t length,
                                         DmaBufMapping mapping = DmaBufMapping::usual);

}  // namespace railyard::cuda
