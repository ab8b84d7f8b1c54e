#include "plugin_directory.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace railyard::bench {

std::string plugin_directory(const std::string& given, const std::string& plugin) {
    if (!given.empty()) return given;
    for (const char* name : {"RAILYARD_PLUGIN_DIR", "NIXL_PLUGIN_DIR"}) {
        const char* value = std::getenv(name);
        if (value != nullptr && *value != '\0') return value;
    }
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return {};
    const std::filesystem::path here = self.parent_path();
    const std::string file = "libplugin_" + plugin + ".so";
    const std::filesystem::path staged = here.parent_path() / "plugins";
    const std::filesystem::path installed = (here / RAILYARD_INSTALLED_PLUGINS).lexically_normal();
    // As benchmark/run leaves it, in a build by hand, and as it is installed.
    for (const std::filesystem::path& directory : {staged, here.parent_path() / "src/plugin", installed})
        if (std::filesystem::exists(directory / file, error)) return directory.string();
    return staged.string();
}

}  // namespace railyard::bench
