// All memory that the fake driver knows: device memory with its addresses, the NIC's way to the bytes and the
// GPU's look at them, and pinned host memory.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace fakecuda {

/// Bytes in a memfd. `bytes` is where NICs reach them; `gpu` is what the GPU sees, the same place unless
/// writes are visible late.
class Backing {
  public:
    /// nullptr when the system has no more. `length` is rounded up to pages.
    static std::shared_ptr<Backing> make(std::size_t length, bool late);
    /// The first `length` bytes of another process's. Takes the descriptor.
    static std::shared_ptr<Backing> of(int fd, std::size_t length);
    ~Backing();
    Backing(const Backing&) = delete;
    Backing& operator=(const Backing&) = delete;

    int fd = -1;
    std::size_t length = 0;
    char* bytes = nullptr;
    char* gpu = nullptr;

    void write(std::size_t offset, const void* from, std::size_t count) noexcept;
    void read(std::size_t offset, void* to, std::size_t count) const noexcept;
    void flush() noexcept;

  private:
    Backing() = default;
    std::mutex flushing_;  ///< the GPU's write of both looks, or a flush
};

enum class Kind { device, pool, managed, vmm, imported, host, registered };

/// One range of addresses.
struct Range {
    CUdeviceptr start = 0;
    std::size_t length = 0;
    Kind kind = Kind::device;
    CUcontext context = nullptr;
    int device = 0;
    unsigned flags = 0;  ///< of host memory
    std::uint64_t buffer_id = 0;
    bool sync_memops = false;
    bool accessible = true;  ///< VMM: cuMemSetAccess was there
    bool gpu_direct = true;
    std::shared_ptr<Backing> backing;  ///< none for host memory
    std::size_t backing_offset = 0;    ///< of `start`
    CUdeviceptr guard_start = 0;       ///< what was mapped for the addresses; 0: the owner is somebody else
    std::size_t guard_length = 0;
    CUmemGenericAllocationHandle handle = 0;  ///< VMM
    CUdeviceptr reservation = 0;              ///< VMM: start of the reserved range

    [[nodiscard]] bool on_device() const { return kind != Kind::host && kind != Kind::registered; }
};

class Memory {
  public:
    /// Puts the range where it is found. Its guard mapping is the table's from here on.
    void add(const Range& range);
    /// The range that has `address`; by value, as others may free it meanwhile. False: none.
    bool find(CUdeviceptr address, Range& out) const;
    /// Takes out the range that starts at `address` and is of one of the kinds; false: there is none.
    bool remove(CUdeviceptr address, std::initializer_list<Kind> kinds, Range* out = nullptr);
    void remove_of(CUcontext context);
    void update(CUdeviceptr start, const Range& range);
    [[nodiscard]] std::size_t used(int device) const;
    [[nodiscard]] std::size_t count(std::initializer_list<Kind> kinds) const;
    /// Makes everything that NICs wrote to the device visible to it; -1: to every device.
    void flush(int device);

    /// Pieces that make up [address, address + length) on devices, in order; false: some of it is no device
    /// memory, or it leaves its allocation (VMM: its reservation).
    struct Piece {
        std::shared_ptr<Backing> backing;
        std::size_t offset, length;
        CUdeviceptr address;
        bool accessible;
    };
    bool pieces(CUdeviceptr address, std::size_t length, std::vector<Piece>& out) const;

    /// A copy on the GPU: device addresses by the GPU's look, all others as they are.
    CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t length) const;
    CUresult fill(CUdeviceptr to, const void* pattern, std::size_t pattern_length, std::size_t count) const;
    /// Loads and stores of 4 or 8 bytes as a stream's memory operations do them: atomic, with order.
    CUresult store(CUdeviceptr address, std::uint64_t value, unsigned bytes) const;
    CUresult load(CUdeviceptr address, std::uint64_t& value, unsigned bytes) const;

  private:
    const Range* find_locked(CUdeviceptr address) const;
    static void unmap(const Range& range);

    mutable std::shared_mutex mutex_;
    std::map<CUdeviceptr, Range> ranges_;
};

/// Gives the range its addresses, which fault when touched where the settings say so: the first byte lies in
/// its page where the backing has it.
CUresult place(Range& range);

/// Addresses that fault when touched, of `length` bytes; 0: no more.
CUdeviceptr reserve_addresses(std::size_t length, CUdeviceptr wish = 0);

constexpr std::size_t page = 4096;
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace fakecuda
