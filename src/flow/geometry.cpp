#include "flow/geometry.h"

#include <algorithm>
#include <string>

#include "common/status.h"

namespace railyard::flow {
namespace {

[[noreturn]] void refuse(const std::string& text) {
    throw Error(Status::invalid_param, text);
}

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) noexcept {
    return value / by + (value % by != 0);
}

}  // namespace

GrainGeometry::GrainGeometry(std::uint32_t grains, std::uint64_t length, std::uint32_t slices,
                             std::uint64_t unit)
    : grains_(grains), slices_(slices), length_(length), unit_(std::min(unit, length)) {
    if (grains == 0 || grains > most_grains)
        refuse(std::to_string(grains) + " grains: 1 to " + std::to_string(most_grains) + " can be carried");
    if (slices == 0 || slices > most_slices)
        refuse(std::to_string(slices) + " slices: a grain has 1 to " + std::to_string(most_slices));
    if (length == 0 || length > std::uint64_t{1} << 40)
        refuse("grains of " + std::to_string(length) + " bytes: 1 byte to 1 TiB can be carried");
    if (unit == 0) refuse("units of 0 bytes");
    slice_length_ = divide_up(length, slices);
    if ((slices - 1) * slice_length_ >= length) {
        refuse(std::to_string(slices) + " slices of " + std::to_string(length) +
               " bytes leave the last one empty: use fewer");
    }
    const std::uint64_t a_slice = divide_up(slice_length_, unit);
    if (a_slice * slices > most_units) {
        refuse(std::to_string(a_slice * slices) + " units a grain: at most " + std::to_string(most_units) +
               " can be carried");
    }
    a_slice_ = static_cast<std::uint32_t>(a_slice);
    bits_ = NameBits(grains, a_slice_ * slices);
    if (!bits_.fits()) {
        refuse(std::to_string(grains) + " grains of " + std::to_string(slices) +
               " slices: numbers of both take " + std::to_string(32 - source_bits - bits_.round_bits()) +
               " bits, and there are " + std::to_string(most_name_bits) + ": use fewer grains or slices");
    }
}

GrainGeometry GrainGeometry::choose(std::uint32_t grains, std::uint64_t length, std::uint32_t slices,
                                    std::uint64_t wanted) {
    // What is wrong with the numbers whatever the units are.
    GrainGeometry largest(grains, length, slices, std::max<std::uint64_t>(length, 1));
    const unsigned index_bits = NameBits::bits_for(grains);
    const std::uint64_t room =
        std::min<std::uint64_t>(std::uint64_t{1} << (most_name_bits - index_bits), most_units);
    const std::uint64_t a_slice = room / slices;  // not 0: `largest` fits
    const std::uint64_t slice_length = divide_up(length, slices);
    const std::uint64_t unit = std::max({wanted, divide_up(slice_length, a_slice), std::uint64_t{1}});
    return {grains, length, slices, std::min(unit, length)};
}

Span GrainGeometry::slice_at(std::uint32_t slice) const noexcept {
    const std::uint64_t offset = slice * slice_length_;
    return {offset, std::min(slice_length_, length_ - offset)};
}

Span GrainGeometry::unit_at(std::uint32_t unit) const noexcept {
    const Span slice = slice_at(unit / a_slice_);
    const std::uint64_t offset = unit % a_slice_ * unit_;
    return {slice.offset + offset, std::min(unit_, slice.length - offset)};
}

}  // namespace railyard::flow
