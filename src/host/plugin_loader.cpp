#include "host/plugin_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "common/status.h"

namespace railyard::host {
namespace {

constexpr int known_api_version = 1;

std::string file_name(const std::string& name) {
    return "libplugin_" + name + ".so";
}

std::string path_of(const std::string& directory, const std::string& name) {
    const bool sane = !name.empty() && name.find('/') == std::string::npos;
    if (!sane)
        throw Error(Status::invalid_param,
                    "'" + name + "' is no name of a plugin: give the NAME of its file, libplugin_NAME.so");
    std::error_code ignored;
    if (!std::filesystem::is_directory(directory, ignored))
        throw Error(Status::not_found,
                    "plugin directory '" + directory +
                        "' does not exist; set RAILYARD_PLUGIN_DIR (or NIXL_PLUGIN_DIR) to the "
                        "directory that holds " +
                        file_name(name));
    const auto path = std::filesystem::path(directory) / file_name(name);
    if (!std::filesystem::exists(path, ignored))
        throw Error(Status::not_found,
                    "plugin directory '" + directory + "' holds no " + file_name(name) +
                        "; build it (benchmark/run --build-only leaves a plugin directory in "
                        "build/release/plugins) or name another directory with "
                        "RAILYARD_PLUGIN_DIR or NIXL_PLUGIN_DIR");
    return path.string();
}

template <class Function>
Function symbol(void* image, const char* name, const std::string& path) {
    void* const address = dlsym(image, name);
    if (address == nullptr) throw Error(Status::backend, path + " is no plugin: it does not export " + name);
    return reinterpret_cast<Function>(address);
}

}  // namespace

std::string plugin_directory(const std::string& given) {
    if (!given.empty()) return given;
    for (const char* variable : {"RAILYARD_PLUGIN_DIR", "NIXL_PLUGIN_DIR"}) {
        const char* const value = std::getenv(variable);
        if (value != nullptr && *value != '\0') return value;
    }
    throw Error(
        Status::invalid_param,
        "no plugin directory: set RAILYARD_PLUGIN_DIR (or NIXL_PLUGIN_DIR) to the directory that holds "
        "libplugin_NAME.so");
}

Plugin::Plugin(const std::string& directory, const std::string& name) : path_(path_of(directory, name)) {
    void* const image = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (image == nullptr) {
        const char* const reason = dlerror();
        throw Error(Status::backend,
                    "cannot load " + path_ + ": " + (reason != nullptr ? reason : "unknown reason"));
    }
    const auto init = symbol<Init>(image, "nixl_plugin_init", path_);
    const auto fini = symbol<Fini>(image, "nixl_plugin_fini", path_);
    table_ = init();
    if (table_ == nullptr) throw Error(Status::backend, path_ + ": nixl_plugin_init failed");
    fini_ = fini;
    if (table_->api_version == known_api_version) return;
    fini_();
    throw Error(Status::mismatch, path_ + " has plugin interface version " +
                                      std::to_string(table_->api_version) + ", this host knows " +
                                      std::to_string(known_api_version));
}

Plugin::~Plugin() {
    fini_();
}

std::string Plugin::version() const {
    return table_->get_plugin_version();
}

std::map<std::string, std::string> Plugin::options() const {
    const nixl_b_params_t options = table_->get_backend_options();
    return {options.begin(), options.end()};
}

EnginePointer Plugin::create_engine(const nixlBackendInitParams& init) const {
    EnginePointer engine(table_->create_engine(&init), EngineDeleter{table_});
    if (engine == nullptr || engine->getInitErr())
        throw Error(Status::backend, "plugin " + path_ + " refused to create an engine for agent '" +
                                         init.localAgent + "'; its log (above, on stderr) says why");
    return engine;
}

}  // namespace railyard::host
