// Host memory is its own image; GPU memory is copied from and to one.
#include "side_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "failure.h"

namespace railyard::bench {

Mapping::Mapping(std::size_t length, bool present) : length_(length) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (present ? MAP_POPULATE : MAP_NORESERVE);
    start_ = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start_ == MAP_FAILED) {
        throw Failure("cannot map " + std::to_string(length) + " bytes: " + std::strerror(errno) +
                      "; lower --memory");
    }
}

Mapping::~Mapping() {
    munmap(start_, length_);
}

SideMemory::SideMemory(const Place& place, std::size_t length) : place_(place), image_(length, !place.vram) {
    if (!place.vram) return;
    gpu_.emplace(place.gpu);
    device_.emplace(*gpu_, length);
}

host::Range SideMemory::range() const noexcept {
    const std::uint64_t base =
        device_ ? device_->base() : reinterpret_cast<std::uint64_t>(image_.bytes().data());
    return {base, image_.bytes().size(), place_.device()};
}

std::span<std::byte> SideMemory::host_bytes() const {
    if (place_.vram) throw Failure("the plain libfabric loop moves host memory only, not " + place_.text());
    return image_.bytes();
}

void SideMemory::to_device(std::uint64_t length) {
    if (device_) gpu_->copy(device_->base(), reinterpret_cast<std::uint64_t>(image_.bytes().data()), length);
}

void SideMemory::from_device(std::uint64_t offset, std::uint64_t length) {
    if (!device_) return;
    const auto image = reinterpret_cast<std::uint64_t>(image_.bytes().data());
    gpu_->copy(image + offset, device_->base() + offset, length);
}

void SideMemory::fill_source(const Layout& layout, std::uint64_t seed) {
    bench::fill_source(image_.bytes(), layout, seed);
    to_device(layout.bytes());
}

void SideMemory::scrub_destination(const Layout& layout, std::uint64_t seed) {
    bench::scrub_destination(image_.bytes(), layout, seed);
    to_device(layout.bytes());
}

std::optional<std::string> SideMemory::check_slot(const Layout& layout, std::uint64_t seed, unsigned slot) {
    const std::uint64_t begin = layout.offset(slot, 0) - Layout::guard;
    const std::uint64_t end = layout.offset(slot, layout.batch - 1) + layout.size + Layout::guard;
    from_device(begin, end - begin);
    return bench::check_slot(image_.bytes(), layout, seed, slot);
}

std::optional<std::string> SideMemory::check_destination(const Layout& layout, std::uint64_t seed,
                                                         Corrupt kind) {
    from_device(0, layout.bytes());
    corrupt(kind, image_.bytes(), layout);
    return bench::check_destination(image_.bytes(), layout, seed);
}

}  // namespace railyard::bench
