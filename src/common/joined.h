// Words in a row, for messages and reports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace railyard {

/// `words`, any range of strings, with `between` between them.
template <typename Words>
[[nodiscard]] std::string joined(const Words& words, const char* between = ", ") {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : between) + std::string(word);
    return text;
}

/// "a, b, c, d and 28 more": the first ones of many.
[[nodiscard]] inline std::string joined_first(std::vector<std::string> names) {
    constexpr std::size_t most = 4;
    const std::size_t count = names.size();
    if (count > most) names.resize(most);
    return joined(names) + (count > most ? " and " + std::to_string(count - most) + " more" : "");
}

}  // namespace railyard
