// The CPUs that threads may run on: keeps one on those of its NUMA node.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <span>
#include <string>

namespace railyard::topology {

/// Keeps `thread` on those of `cpus` that the calling thread may use; where these are fewer than `least`, or
/// the kernel refuses, nothing changes. Least two: on one CPU alone it would wait for whoever is there.
/// What it was kept on, or why not, for the log: "CPUs 0-47,96-143", "any CPU (...)". Any thread; does not
/// block.
std::string bind_thread(pthread_t thread, std::span<const int> cpus, std::size_t least = 2);

/// How many the calling thread may run on; 0: the kernel does not say. Any thread; does not block.
std::size_t allowed_cpus() noexcept;

}  // namespace railyard::topology
