#include "provider/memory_region.h"

#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>

#include "provider/compatibility.h"
#include "provider/device_memory.h"
#include "provider/domain.h"
#include "provider/fids.h"

namespace simefa {
namespace {

constexpr std::uint64_t known_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Keys of GPU memory that is not registered, for want of peer-to-peer.
constexpr std::uint64_t first_left_out = 0x100000000;

struct Mapping {
    void* address = nullptr;
    std::size_t length = 0;
};

/// Maps a dma-buf so that the NIC reaches it. 0 or a negative libfabric error.
int map_dmabuf(const MrDmabuf& buffer, const Nic& nic, Region& region, Mapping& mapping) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t start = buffer.offset / page * page;
    struct stat file {};
    if (fstat(buffer.fd, &file) != 0) return -FI_EBADF;
    // Past its end there would be nothing to touch.
    const auto size = static_cast<std::uint64_t>(file.st_size);
    if (buffer.len == 0 || buffer.offset > size || buffer.len > size - buffer.offset) return -FI_EINVAL;
    mapping.length = buffer.offset - start + buffer.len;
    mapping.address = map_device_dmabuf(buffer.fd, start, mapping.length);
    if (!mapping.address) {
        mapping.address = mmap(nullptr, mapping.length, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.fd,
                               static_cast<off_t>(start));
    }
    if (mapping.address == MAP_FAILED) {
        mapping.address = nullptr;
        return -FI_EINVAL;
    }
    region.base = reinterpret_cast<std::uint64_t>(buffer.base_addr) + buffer.offset;
    region.length = buffer.len;
    region.alias = reinterpret_cast<std::uint64_t>(mapping.address) + (buffer.offset - start);
    region.out_of_reach = !is_window_for(buffer.fd, nic.description().bridge);
    return 0;
}

/// Of host memory: where the device has RDMA WRITE, the real provider has all of it written to, whatever
/// access is asked for.
bool has_few_pages(const Nic& nic, const fi_mr_attr& attr) {
    if (attr.iov_count != 1 || !attr.mr_iov) return true;
    constexpr std::uint64_t page = 4096;
    const std::uint64_t set = nic.slot().get(Setting::region_pages);
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(attr.mr_iov->iov_base) % page;
    const std::uint64_t pages = (start + attr.mr_iov->iov_len + page - 1) / page;
    return pages <= (set ? set : default_region_pages) || !device_rdma(nic.description()).write;
}

/// What the NIC's settings and the domain let in.
int permitted(Domain& domain, const fi_mr_attr& attr, std::uint64_t flags) {
    const bool dmabuf = (flags & mr_dmabuf_flag) != 0;
    const NicSlot& nic = domain.nic().slot();
    if (dmabuf && !nic.on(Setting::gpu_dmabuf)) return -FI_EOPNOTSUPP;
    if (attr.iface == FI_HMEM_SYSTEM) return has_few_pages(domain.nic(), attr) ? 0 : -FI_ENOMEM;
    if (!domain.gpu_memory()) return -FI_EOPNOTSUPP;
    return dmabuf || nic.on(Setting::gpu_address) ? 0 : -FI_EOPNOTSUPP;
}

int describe(const fi_mr_attr& attr, std::uint64_t flags, const Nic& nic, Region& region, Mapping& mapping) {
    if (attr.iov_count != 1 || !attr.mr_iov) return -FI_EINVAL;
    if (attr.access == 0 || (attr.access & ~known_access)) return -FI_EBADFLAGS;
    region.access = attr.access;
    if (flags & mr_dmabuf_flag)
        return map_dmabuf(*reinterpret_cast<const MrDmabuf*>(attr.mr_iov), nic, region, mapping);
    region.base = region.alias = reinterpret_cast<std::uint64_t>(attr.mr_iov->iov_base);
    region.length = attr.mr_iov->iov_len;
    if (region.length == 0) return -FI_EINVAL;
    if (attr.iface != FI_HMEM_SYSTEM) {
        if (attr.iface != FI_HMEM_CUDA) return -FI_EOPNOTSUPP;
        region.alias = device_alias(region.base, region.length);
        if (region.alias == 0) return -FI_EOPNOTSUPP;
    }
    return 0;
}

}  // namespace

MemoryRegion::MemoryRegion(Domain& domain, std::uint32_t region_key, void* context_of_user) noexcept
    : fid_mr{}, domain_(domain) {
    fid.fclass = FI_CLASS_MR;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    key = region_key;
    mem_desc = domain.regions().descriptor(region_key);
}

/// Success, a key that no device has, and a descriptor that nothing can be done with.
int MemoryRegion::leave_out(Domain& domain, void* context_of_user, fid_mr** region) {
    static std::atomic<std::uint64_t> next{first_left_out};
    auto* const made = new (std::nothrow) MemoryRegion(domain, 0, context_of_user);
    if (!made) return -FI_ENOMEM;
    made->key = next.fetch_add(1);
    *region = made;
    return 0;
}

int MemoryRegion::regattr(::fid* domain, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region) {
    Domain& owner = *Domain::from(domain);
    Region described;
    Mapping mapping;
    if (attr->iface == FI_HMEM_CUDA && owner.gpu_memory() &&
        !owner.nic().slot().on(Setting::gpu_peer_to_peer))
        return leave_out(owner, attr->context, region);
    if (const int rc = permitted(owner, *attr, flags)) return rc;
    if (const int rc = describe(*attr, flags, owner.nic(), described, mapping)) return rc;
    std::uint32_t key = 0;
    MemoryRegion* made = nullptr;
    try {
        const std::lock_guard lock(owner.mutex());
        key = owner.regions().add(described);
        if (key) made = new MemoryRegion(owner, key, attr->context);
    } catch (const std::bad_alloc&) {
    }
    if (!made) {
        if (mapping.address) munmap(mapping.address, mapping.length);
        return -FI_ENOMEM;
    }
    made->mapping_ = mapping.address;
    made->mapping_length_ = mapping.length;
    owner.nic().slot().count(Counter::regions);
    *region = made;
    return 0;
}

int MemoryRegion::reg(::fid* domain, const void* buffer, std::size_t length, std::uint64_t access,
                      std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr** region,
                      void* context) {
    const iovec range{const_cast<void*>(buffer), length};
    return regv(domain, &range, 1, access, offset, requested_key, flags, region, context);
}

int MemoryRegion::regv(::fid* domain, const iovec* ranges, std::size_t count, std::uint64_t access,
                       std::uint64_t, std::uint64_t, std::uint64_t flags, fid_mr** region, void* context) {
    fi_mr_attr attr{};
    attr.mr_iov = ranges;
    attr.iov_count = count;
    attr.access = access;
    attr.context = context;
    return regattr(domain, &attr, flags, region);
}

int MemoryRegion::close_fid(::fid* handle) {
    auto* region = object_of<MemoryRegion, fid_mr>(handle);
    Domain& domain = region->domain_;
    if (region->key >= first_left_out) {
        delete region;
        return 0;
    }
    {
        const std::lock_guard lock(domain.mutex());
        domain.regions().remove(static_cast<std::uint32_t>(region->key));
    }
    domain.nic().slot().uncount(Counter::regions);
    if (region->mapping_) munmap(region->mapping_, region->mapping_length_);
    delete region;
    return 0;
}

int MemoryRegion::control(::fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

fi_ops MemoryRegion::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = [](::fid*, ::fid*, std::uint64_t) { return 0; },
    .control = control,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_mr MemoryRegion::domain_ops = {
    .size = sizeof(fi_ops_mr),
    .reg = reg,
    .regv = regv,
    .regattr = regattr,
};

}  // namespace simefa
