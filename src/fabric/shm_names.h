// What endpoints of shm are called, and what they take of /dev/shm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railyard::fabric {

/// Of /dev/shm, by one endpoint (libfabric 1.17 to 2.1).
inline constexpr std::uint64_t shm_endpoint_bytes = std::uint64_t{16} << 20;

/// Bytes that must be free in /dev/shm, else libfabric does not offer shm, which it says in its own log
/// alone: an endpoint for each core. Measured with 1.17 on two cores: 20 MiB are too little, 40 are enough.
[[nodiscard]] std::uint64_t shm_bytes_wanted() noexcept;

/// What an endpoint of this process is to be called, "fi_shm://PID-RANDOM"; libfabric adds user and index.
/// libfabric's own names have the process's number alone, which is another's as well in another PID namespace
/// (ADR 47). The same for all endpoints of a process, another one in its forked children. Throws
/// Error{backend}, std::bad_alloc.
[[nodiscard]] const std::string& shm_name_of_this_process();

/// The name, as libfabric has made it of ours, is one of this process. Throws as above.
[[nodiscard]] bool is_of_this_process(std::string_view address);

/// True for what such an endpoint's file in /dev/shm is called, whose ever it is.
[[nodiscard]] bool is_shm_file_of_ours(std::string_view file) noexcept;

/// Removes the files of our endpoints in that directory which killed processes of this user have left behind:
/// those that nobody has open or mapped, in whatever PID namespace, as far as the kernel tells (by a lease).
/// Returns how many. Logs what it removes.
std::size_t remove_shm_leftovers(const std::string& directory = "/dev/shm") noexcept;

}  // namespace railyard::fabric
