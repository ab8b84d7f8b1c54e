// Which of the known names somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard {

/// The known name that the fewest single letters, changed, left out, put in or swapped with their neighbour,
/// make of `wrong`, whatever their case; the first of several. Empty where none is near: more than a third
/// of the letters differ.
[[nodiscard]] std::string nearest(std::string_view wrong, const std::vector<std::string>& known);

/// " (did you mean X?)", or nothing where no name is near.
[[nodiscard]] std::string guess(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace railyard
