// What libfabric finds in the shared object.
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <exception>

#include "provider/completion_queue.h"
#include "provider/environment.h"
#include "provider/fabric.h"
#include "provider/hints.h"
#include "shared/cluster.h"

namespace {

/// Called when libfabric ends: files of objects that the application did not close go.
void cleanup() {
    simefa::CompletionQueue::take_devices_down();
    try {
        simefa::Cluster::attach(simefa::environment().cluster)->sweep(true);
    } catch (const std::exception&) {
    }
}

fi_provider provider = {
    // The higher version wins over a built-in provider of the same name.
    .version = FI_VERSION(30000, 0), .fi_version = FI_VERSION(2, 99), .context = {},      .name = "efa",
    .getinfo = simefa::get_info,     .fabric = simefa::Fabric::open,  .cleanup = cleanup,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
    return &provider;
}
