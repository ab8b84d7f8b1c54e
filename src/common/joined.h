// Words in a row, for messages and reports.
#pragma once

#include <string>

namespace railyard {

/// `words`, any range of strings, with `between` between them.
template <typename Words>
[[nodiscard]] std::string joined(const Words& words, const char* between = ", ") {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : between) + std::string(word);
    return text;
}

}  // namespace railyard
