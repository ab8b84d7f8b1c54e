// A range of numbers for options, for programs that have CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace railyard {

/// CLI::Range, which lets "nan" pass: that is neither below the range nor above it.
inline CLI::Validator number_range(double low, double high) {
    const CLI::Range range(low, high);
    return CLI::Validator(
        [range](std::string& text) {
            return std::isnan(std::strtod(text.c_str(), nullptr)) ? "'" + text + "' is no number"
                                                                  : range(text);
        },
        range.get_description());
}

}  // namespace railyard
