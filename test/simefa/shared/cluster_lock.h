// The lock between the processes of one cluster.
#pragma once

#include <string>

namespace simefa {

inline constexpr const char* shared_memory_root = "/dev/shm";
inline constexpr const char* directory_prefix = "simefa-";

/// Held from construction to destruction; blocks. Makes the directory. Throws std::system_error.
class ClusterLock {
  public:
    explicit ClusterLock(const std::string& directory);
    ~ClusterLock();
    ClusterLock(const ClusterLock&) = delete;
    ClusterLock& operator=(const ClusterLock&) = delete;

    /// Takes the lock of a directory that is there already, without waiting. False: none, or somebody holds
    /// it.
    static bool try_lock(const std::string& directory, int& descriptor) noexcept;

  private:
    int descriptor_ = -1;
};

}  // namespace simefa
