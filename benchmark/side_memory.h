// The memory of one side, wherever it lies: zeroed, present before anything is timed, filled and compared by
// the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu.h"
#include "host/agent.h"
#include "place.h"
#include "workload.h"

namespace railyard::bench {

/// Page-aligned zeroed host memory.
class Mapping {
  public:
    /// `present`: backed by memory from the start. Throws Failure.
    Mapping(std::size_t length, bool present);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    [[nodiscard]] std::span<std::byte> bytes() const noexcept {
        return {static_cast<std::byte*>(start_), length_};
    }

  private:
    void* start_ = nullptr;
    std::size_t length_;
};

/// GPU memory has an image in host memory, in which it is filled and compared; copies lead from one to the
/// other. One thread.
class SideMemory {
  public:
    /// `length` a multiple of the page size. Throws Failure.
    SideMemory(const Place& place, std::size_t length);

    /// What is registered and transferred.
    [[nodiscard]] host::Range range() const noexcept;
    /// Host memory only: the plain libfabric loop knows no other.
    [[nodiscard]] std::span<std::byte> host_bytes() const;
    [[nodiscard]] std::size_t length() const noexcept { return image_.bytes().size(); }
    [[nodiscard]] const Place& place() const noexcept { return place_; }

    /// As the functions of the same names in workload.h. They throw Failure when a copy fails.
    void fill_source(const Layout& layout, std::uint64_t seed);
    void scrub_destination(const Layout& layout, std::uint64_t seed);
    [[nodiscard]] std::optional<std::string> check_slot(const Layout& layout, std::uint64_t seed,
                                                        unsigned slot);
    /// `kind`: what is changed just before the look.
    [[nodiscard]] std::optional<std::string> check_destination(const Layout& layout, std::uint64_t seed,
                                                               Corrupt kind);

  private:
    void to_device(std::uint64_t length);
    void from_device(std::uint64_t offset, std::uint64_t length);

    Place place_;
    Mapping image_;  ///< of host memory, the memory itself
    std::optional<Gpu> gpu_;
    std::optional<GpuMemory> device_;
};

}  // namespace railyard::bench
