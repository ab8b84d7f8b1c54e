// Whether the host that loads the plugin has the interface that the plugin was made for.
#pragma once

namespace railyard::plugin {

/// Looks at the library that `caller`, an address in the host's code, lies in: NIXL before 1.0 names the same
/// interface version as later ones and has other virtual functions, so that it would call others than it
/// means. False where nothing says that the host is such a one. The first time that it is true in a process
/// a line of the log says so. Any thread; blocks only as dlsym does.
[[nodiscard]] bool is_older_host(const void* caller) noexcept;

}  // namespace railyard::plugin
