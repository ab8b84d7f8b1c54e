// The rendezvous in an etcd server.
#pragma once

#include <chrono>
#include <memory>

#include "group/rendezvous.h"

namespace railyard::bench {

/// Throws Failure, also where this program was built without libcurl.
[[nodiscard]] std::unique_ptr<Rendezvous> meet_at_etcd(const GroupOptions& options,
                                                       std::chrono::milliseconds timeout);

}  // namespace railyard::bench
