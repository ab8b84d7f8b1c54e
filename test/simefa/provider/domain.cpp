#include "provider/domain.h"

#include <rdma/fi_errno.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "provider/address_vector.h"
#include "provider/completion_queue.h"
#include "provider/driver_thread.h"
#include "provider/endpoint.h"
#include "provider/event_queue.h"
#include "provider/fabric.h"
#include "provider/fids.h"
#include "provider/memory_region.h"

namespace simefa {
namespace {

const NicDescription* find_nic(const fi_info& info) {
    if (!info.domain_attr || !info.domain_attr->name) return nullptr;
    for (const NicDescription& nic : nic_table()) {
        if (nic.domain_name() == info.domain_attr->name) return &nic;
    }
    return nullptr;
}

std::shared_ptr<MappedFile> create_record(Cluster& cluster, const std::string& file) {
    return cluster.create(file, sizeof(DomainRecord), [](MappedFile& mapped) {
        auto& record = mapped.as<DomainRecord>();
        record.owner.store(this_process());
        record.magic.store(layout_magic);
    });
}

}  // namespace

Domain::Domain(Fabric& fabric, const NicDescription& nic, const fi_info& info, void* context_of_user)
    : fid_domain{},
      fabric_(fabric),
      kind_(fabric.kind()),
      api_version_(info.fabric_attr ? info.fabric_attr->api_version : fabric.api_version),
      gpu_memory_((info.caps & FI_HMEM) != 0),
      shm_(kind_ == FabricKind::rdm && (info.caps & FI_LOCAL_COMM)),
      nic_(nic),
      file_(nic_.cluster().fresh_name("domain")),
      record_(create_record(nic_.cluster(), file_)),
      regions_(this->record()) {
    fid.fclass = FI_CLASS_DOMAIN;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
    mr = &MemoryRegion::domain_ops;
    fabric_.add_domain();
    // Peers copy to and from this process; where the kernel restricts that to parents, allow all of this
    // user's.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    DriverThread::add(*this);
}

Domain::~Domain() {
    DriverThread::remove(*this);
    nic_.cluster().remove(file_);
    fabric_.remove_domain();
}

Domain* Domain::from(::fid* handle) noexcept {
    return object_of<Domain, fid_domain>(handle);
}

int Domain::open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    const NicDescription* nic = find_nic(*info);
    if (!nic) return -FI_ENODATA;
    try {
        *domain = new Domain(*Fabric::from(&fabric->fid), *nic, *info, context);
        return 0;
    } catch (const std::exception&) {
        return -FI_ENOMEM;
    }
}

void Domain::attach(CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    queues_.push_back(&queue);
    add_child();
}

void Domain::detach(CompletionQueue& queue) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(queues_, &queue);
    remove_child();
}

void Domain::progress() noexcept {
    const std::lock_guard lock(mutex_);
    for (CompletionQueue* queue : queues_)
        queue->progress(false);
}

int Domain::close_fid(::fid* handle) {
    Domain* domain = from(handle);
    if (domain->children_ > 0) return -FI_EBUSY;
    delete domain;
    return 0;
}

int Domain::bind(::fid* handle, ::fid* other, std::uint64_t) {
    if (other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    from(handle)->event_queue_ = EventQueue::from(other);
    return 0;
}

fi_ops Domain::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = bind,
    .control = unsupported,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_domain Domain::ops_ = {
    .size = sizeof(fi_ops_domain),
    .av_open = AddressVector::open,
    .cq_open = CompletionQueue::open,
    .endpoint = Endpoint::open,
    .scalable_ep = unsupported,
    .cntr_open = unsupported,
    .poll_open = unsupported,
    .stx_ctx = unsupported,
    .srx_ctx = unsupported,
    .query_atomic = unsupported,
    .query_collective = unsupported,
    .endpoint2 = [](fid_domain* domain, fi_info* info, fid_ep** endpoint, std::uint64_t,
                    void* context) { return Endpoint::open(domain, info, endpoint, context); },
};

}  // namespace simefa
