#include "provider/fabric.h"

#include <rdma/fi_errno.h>

#include <cstring>
#include <mutex>
#include <new>

#include "provider/completion_queue.h"
#include "provider/domain.h"
#include "provider/event_queue.h"
#include "provider/fids.h"

namespace simefa {

Fabric::Fabric(FabricKind kind, std::uint32_t version, void* context_of_user) noexcept
    : fid_fabric{}, kind_(kind) {
    fid.fclass = FI_CLASS_FABRIC;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
    api_version = version;
}

Fabric* Fabric::from(::fid* handle) noexcept {
    return object_of<Fabric, fid_fabric>(handle);
}

int Fabric::open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    for (const FabricKind kind : {FabricKind::direct, FabricKind::rdm}) {
        if (!attr->name || std::strcmp(attr->name, fabric_name(kind)) != 0) continue;
        *fabric = new (std::nothrow) Fabric(kind, attr->api_version, context);
        return *fabric ? 0 : -FI_ENOMEM;
    }
    return -FI_ENODATA;
}

int Fabric::trywait(fid_fabric*, ::fid** handles, int count) {
    for (int i = 0; i < count; ++i) {
        if (handles[i]->fclass != FI_CLASS_CQ) continue;
        CompletionQueue& queue = *CompletionQueue::from(handles[i]);
        const std::lock_guard lock(queue.domain().mutex());
        if (const int rc = queue.try_wait()) return rc;
    }
    return 0;
}

int Fabric::close_fid(::fid* handle) {
    Fabric* fabric = from(handle);
    if (fabric->domains_ > 0) return -FI_EBUSY;
    delete fabric;
    return 0;
}

fi_ops Fabric::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = unsupported,
    .control = unsupported,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_fabric Fabric::ops_ = {
    .size = sizeof(fi_ops_fabric),
    .domain = Domain::open,
    .passive_ep = unsupported,
    .eq_open = EventQueue::open,
    .wait_open = unsupported,
    .trywait = trywait,
    .domain2 = [](fid_fabric* fabric, fi_info* info, fid_domain** domain, std::uint64_t,
                  void* context) { return Domain::open(fabric, info, domain, context); },
};

}  // namespace simefa
