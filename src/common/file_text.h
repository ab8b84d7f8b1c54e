// Small files as they are read at once: of /proc, mostly.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace railyard {

/// All of it, however long; empty where there is none, or it cannot be read.
[[nodiscard]] inline std::string file_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace railyard
