// How grains are cut.
#include "flow/geometry.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "common/status.h"
#include "model.h"

namespace railyard::flow {
namespace {

/// What the Error says that `call` throws; nothing where it throws none.
template <class Call>
std::optional<std::string> refusal(Call call) {
    try {
        call();
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        return error.what();
    }
    return std::nullopt;
}

/// Every byte is in one slice, and there in one unit.
void expect_cut(const GrainGeometry& g) {
    SCOPED_TRACE(std::to_string(g.length()) + " bytes, " + std::to_string(g.slices()) + " slices, units of " +
                 std::to_string(g.unit_length()));
    std::uint64_t byte = 0;
    std::uint32_t unit = 0;
    for (std::uint32_t slice = 0; slice < g.slices(); ++slice) {
        const Span span = g.slice_at(slice);
        ASSERT_EQ(span.offset, byte);
        ASSERT_GT(span.length, 0u);
        const bool last_slice = slice + 1 == g.slices();
        ASSERT_TRUE(last_slice ? span.length <= g.slice_at(0).length : span.length == g.slice_at(0).length);
        ASSERT_EQ(g.first_unit(slice), unit);
        ASSERT_GT(g.units_of(slice), 0u);
        ASSERT_EQ(g.end_unit(slice), unit + g.units_of(slice));
        for (; unit < g.end_unit(slice); ++unit) {
            const Span part = g.unit_at(unit);
            ASSERT_EQ(part.offset, byte) << "unit " << unit;
            ASSERT_GT(part.length, 0u);
            const bool last_unit = unit + 1 == g.end_unit(slice);
            ASSERT_TRUE(last_unit ? part.length <= g.unit_length() : part.length == g.unit_length());
            byte += part.length;
        }
        ASSERT_EQ(byte, span.offset + span.length);
    }
    ASSERT_EQ(byte, g.length());
    ASSERT_EQ(unit, g.units());
    ASSERT_EQ(unit, count_units(g.length(), g.slices(), g.unit_length()));
    ASSERT_LE(unit, most_units);
    ASSERT_TRUE(g.bits().fits());
    const UnitName last{0, 0, g.grains() - 1, unit - 1};
    ASSERT_EQ(g.bits().unpack(g.bits().pack(last)), last);
}

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
    return value / by + (value % by != 0);
}

TEST(Geometry, SaysWhatItWasMadeOf) {
    const GrainGeometry g(5, 1001, 3, 100);
    EXPECT_EQ(g.grains(), 5u);
    EXPECT_EQ(g.length(), 1001u);
    EXPECT_EQ(g.slices(), 3u);
    EXPECT_EQ(g.unit_length(), 100u);
    EXPECT_EQ(g.slice_at(2).offset, 668u);
    EXPECT_EQ(g.slice_at(2).length, 333u);  // the others have 334
    EXPECT_EQ(g.units(), 12u);
    EXPECT_EQ(g.first_unit(1), 4u);
    EXPECT_EQ(g.unit_at(3).offset, 300u);
    EXPECT_EQ(g.unit_at(3).length, 34u);
    EXPECT_EQ(g.unit_at(11).offset, 968u);
    EXPECT_EQ(g.unit_at(11).length, 33u);
    EXPECT_EQ(g.bits().round_bits(), 32u - 4 - 3 - 4);
}

TEST(Geometry, EveryByteIsInOneUnitOfItsSlice) {
    unsigned cut = 0, refused = 0;
    for (std::uint64_t length = 1; length <= 70; ++length) {
        for (std::uint32_t slices = 1; slices <= 71; ++slices) {
            for (const std::uint64_t unit : {1, 2, 3, 7, 16, 69, 70, 71, 1000}) {
                if ((slices - 1) * divide_up(length, slices) >= length) {
                    EXPECT_TRUE(refusal([&] { GrainGeometry(3, length, slices, unit); }))
                        << length << " " << slices;
                    ++refused;
                    continue;
                }
                ASSERT_NO_FATAL_FAILURE(expect_cut(GrainGeometry(3, length, slices, unit)));
                ++cut;
            }
        }
    }
    EXPECT_GT(cut, 1000u);
    EXPECT_GT(refused, 1000u);
}

TEST(Geometry, EveryByteIsInOneUnitOfLargeGrainsToo) {
    std::mt19937_64 random(11);
    unsigned cut = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::uint64_t length = 1 + random() % (std::uint64_t{1} << (1 + random() % 40));
        const auto slices = static_cast<std::uint32_t>(1 + random() % (1u << random() % 13));
        const std::uint64_t unit = 1 + random() % length;
        const std::uint64_t slice = divide_up(length, slices);
        const bool good = (slices - 1) * slice < length && divide_up(slice, unit) * slices <= most_units;
        const auto made =
            refusal([&] { ASSERT_NO_FATAL_FAILURE(expect_cut(GrainGeometry(1, length, slices, unit))); });
        EXPECT_EQ(!made, good) << length << " " << slices << " " << unit << ": " << made.value_or("");
        cut += good;
    }
    EXPECT_GT(cut, 500u);
}

TEST(Geometry, UnitsMayBeLongerThanAnything) {
    for (const std::uint64_t unit : {std::uint64_t{10}, std::uint64_t{11}, std::uint64_t{1} << 41,
                                     UINT64_MAX / 2, UINT64_MAX - 10, UINT64_MAX - 1, UINT64_MAX}) {
        for (const std::uint32_t slices : {1u, 2u, 5u}) {
            const GrainGeometry g(2, 10, slices, unit);
            EXPECT_EQ(g.units(), slices) << "units of " << unit;
            ASSERT_NO_FATAL_FAILURE(expect_cut(g));
        }
    }
}

TEST(Geometry, LimitsAreGood) {
    expect_cut(GrainGeometry(most_grains, 64, 64, 1));
    expect_cut(GrainGeometry(256, most_slices, most_slices, 1));
    expect_cut(GrainGeometry(1, std::uint64_t{1} << 40, 1, std::uint64_t{1} << 28));
    expect_cut(GrainGeometry(1, 4096, 1, 1));
    expect_cut(GrainGeometry(1, 1, 1, 1));
}

TEST(Geometry, RefusesWhatCannotBeAndSaysWhich) {
    const auto says = [](std::uint32_t grains, std::uint64_t length, std::uint32_t slices, std::uint64_t unit,
                         const std::string& number) {
        const auto text = refusal([&] { GrainGeometry(grains, length, slices, unit); });
        ASSERT_TRUE(text) << number;
        EXPECT_NE(text->find(number), std::string::npos) << *text;
    };
    says(0, 10, 1, 1, "0 grains");
    says(16385, 10, 1, 1, "16385 grains");
    says(~0u, 10, 1, 1, "4294967295 grains");
    says(1, 10, 0, 1, "0 slices");
    says(1, 10000, 4097, 10000, "4097 slices");
    says(1, 10, ~0u, 1, "4294967295 slices");
    says(1, 0, 1, 1, "grains of 0 bytes");
    says(1, (std::uint64_t{1} << 40) + 1, 1, 1 << 30, "1099511627777 bytes");
    says(1, UINT64_MAX, 4096, 1 << 30, "18446744073709551615 bytes");
    says(1, 10, 1, 0, "units of 0 bytes");
    says(1, 10, 11, 1, "11 slices of 10 bytes");
    says(1, 10, 6, 1, "6 slices of 10 bytes");  // 2 bytes each: five are enough
    says(1, 4097, 1, 1, "4097 units");
    says(1, 8194, 2, 2, "4098 units");
    says(1, std::uint64_t{1} << 40, 4096, 1, "1099511627776 units");
    says(16384, 65, 65, 65, "16384 grains of 65 slices");
    says(16384, 65, 1, 1, "16384 grains");
}

TEST(Geometry, ChosenUnitsAreTheWantedOnesWhereTheyFit) {
    EXPECT_EQ(GrainGeometry::choose(1, 1 << 20, 4, 4096).unit_length(), 4096u);
    EXPECT_EQ(GrainGeometry::choose(1, 1 << 20, 1, 256).unit_length(), 256u);      // 4096 units
    EXPECT_EQ(GrainGeometry::choose(1, 1 << 20, 1, 255).unit_length(), 256u);      // would be 4113
    EXPECT_EQ(GrainGeometry::choose(16384, 1 << 20, 1, 1).unit_length(), 16384u);  // bits for 64 of them
    EXPECT_EQ(GrainGeometry::choose(1, 100, 1, 0).unit_length(), 1u);
    EXPECT_EQ(GrainGeometry::choose(1, 100, 1, UINT64_MAX).units(), 1u);
}

TEST(Geometry, ChosenUnitsKeepTheLimits) {
    std::mt19937_64 random(12);
    unsigned chosen = 0;
    for (int i = 0; i < 5000; ++i) {
        const auto grains = static_cast<std::uint32_t>(1 + random() % (1u << random() % 15));
        const auto slices = static_cast<std::uint32_t>(1 + random() % (1u << random() % 13));
        const std::uint64_t length = 1 + random() % (std::uint64_t{1} << (1 + random() % 40));
        const std::uint64_t wanted =
            random() % 20 == 0 ? random() : random() % (std::uint64_t{1} << random() % 41);
        // One unit a slice is always possible, or nothing is.
        const auto coarse = refusal([&] { GrainGeometry(grains, length, slices, length); });
        std::optional<GrainGeometry> made;
        const auto fine =
            refusal([&] { made.emplace(GrainGeometry::choose(grains, length, slices, wanted)); });
        EXPECT_EQ(fine, coarse) << grains << " " << length << " " << slices << " " << wanted;
        if (!made) continue;
        ++chosen;
        if (i % 10 == 0) {
            ASSERT_NO_FATAL_FAILURE(expect_cut(*made));
        }
        EXPECT_LE(made->units(), most_units);
        EXPECT_TRUE(made->bits().fits());
        EXPECT_GE(made->unit_length(), std::min(wanted, length));
        EXPECT_LE(made->unit_length(), length);
        // The target makes the same of the length that it is told.
        const GrainGeometry theirs(grains, length, slices, made->unit_length());
        EXPECT_EQ(theirs.units(), made->units());
        EXPECT_EQ(theirs.bits().round_bits(), made->bits().round_bits());
    }
    EXPECT_GT(chosen, 1000u);
}

TEST(Geometry, ChoosingRefusesWhatCannotBeAndSaysWhich) {
    const auto says = [](std::uint32_t grains, std::uint64_t length, std::uint32_t slices,
                         const std::string& number) {
        for (const std::uint64_t wanted :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 20, UINT64_MAX}) {
            const auto text =
                refusal([&] { static_cast<void>(GrainGeometry::choose(grains, length, slices, wanted)); });
            ASSERT_TRUE(text) << number;
            EXPECT_NE(text->find(number), std::string::npos) << *text;
        }
    };
    says(0, 10, 1, "0 grains");
    says(16385, 10, 1, "16385 grains");
    says(1, 0, 1, "0 bytes");
    says(1, UINT64_MAX, 1, "18446744073709551615 bytes");
    says(1, 10, 0, "0 slices");
    says(1, 1 << 20, 4097, "4097 slices");
    says(1, 5, 6, "6 slices of 5 bytes");
    says(16384, 1 << 20, 128, "16384 grains of 128 slices");
}

}  // namespace
}  // namespace railyard::flow
