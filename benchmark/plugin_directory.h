// Where the backend lies that is measured.
#pragma once

#include <string>

namespace railyard::bench {

/// `given`; where that is empty RAILYARD_PLUGIN_DIR or NIXL_PLUGIN_DIR, else ../plugins beside this program,
/// or where `plugin` was built (../src/plugin) or installed with it.
[[nodiscard]] std::string plugin_directory(const std::string& given, const std::string& plugin = "RAILYARD");

}  // namespace railyard::bench
