// Finds a backend plugin in a plugin directory and loads it, as the stock host does.
#pragma once

#include <backend/backend_plugin.h>

#include <map>
#include <memory>
#include <string>

namespace railyard::host {

/// The directory to look in: `given`, else RAILYARD_PLUGIN_DIR, else NIXL_PLUGIN_DIR. Throws
/// Error{invalid_param} that says how to name one when there is none.
[[nodiscard]] std::string plugin_directory(const std::string& given);

struct EngineDeleter {
    const nixlBackendPlugin* table = nullptr;
    void operator()(nixlBackendEngine* engine) const noexcept { table->destroy_engine(engine); }
};
using EnginePointer = std::unique_ptr<nixlBackendEngine, EngineDeleter>;

/// One loaded plugin: initialised while the object lives. The image itself stays in the process for good, as
/// in the stock host, so that threads and exit handlers of libraries below it never lose their code. Any
/// thread.
class Plugin {
  public:
    /// Loads libplugin_<name>.so of `directory`. Throws Error{not_found} naming the directory, the file and
    /// the remedy, or Error{backend} with the loader's reason.
    Plugin(const std::string& directory, const std::string& name);
    ~Plugin();
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string version() const;
    /// Accepted parameters with their defaults.
    [[nodiscard]] std::map<std::string, std::string> options() const;
    /// Throws Error{backend}: the plugin gives no reason to its host, only to its log. Must end before the
    /// plugin.
    [[nodiscard]] EnginePointer create_engine(const nixlBackendInitParams& init) const;

  private:
    using Init = nixlBackendPlugin* (*)();
    using Fini = void (*)();

    std::string path_;
    Fini fini_ = nullptr;
    const nixlBackendPlugin* table_ = nullptr;
};

}  // namespace railyard::host
