#include "fabric/memory_region.h"

#include <sys/resource.h>

#include <string_view>
#include <utility>

#include "common/log.h"
#include "common/mapping.h"
#include "common/random.h"
#include "common/shortage.h"

namespace railyard::fabric {
namespace {

/// What some EFA devices take in one registration that peers may write to, as a maintainer of the provider
/// says (libfabric #10402).
constexpr std::uint64_t most_efa_pages = std::uint64_t{1} << 20;

/// Nothing, where it has no more of them.
std::string too_many_pages(const ProviderCaps& caps, const MemoryRange& range) {
    if (!caps.may_limit_pages || range.gpu >= 0) return {};
    const std::uint64_t page = page_size_at(range.address);
    const std::uint64_t count = (range.address % page + range.length + page - 1) / page;
    if (count <= most_efa_pages) return {};
    const std::string most = std::to_string((most_efa_pages * page) >> 30) + " GiB";
    return "; the range has " + std::to_string(count) + " pages of " + std::to_string(page / 1024) +
           " KiB, and some EFA devices take " + std::to_string(most_efa_pages) + " of them (" + most +
           ") in one registration that peers may write to (libfabric #10402), as every one is where the "
           "device has RDMA WRITE, and some 24 million in all (#9739): have it on huge pages (MAP_HUGETLB, "
           "or madvise(MADV_HUGEPAGE) before it is first touched), or "
           "register it in pieces of at most " +
           most;
}

std::string out_of_memory(const ProviderCaps& caps, const MemoryRange& range) {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    const std::string pages = too_many_pages(caps, range);
    if (!pages.empty() && (unlimited || range.length <= limit.rlim_cur)) return pages;
    const std::string asked =
        pages + "; " + std::to_string(range.length) + " bytes asked, locked memory limit (`ulimit -l`) is ";
    if (!unlimited)
        return asked + std::to_string(limit.rlim_cur / 1024) +
               " KiB: raise it to unlimited, or register less";
    return asked +
           "unlimited: the machine or the device has no room for so many pages more; use huge pages, or "
           "register less";
}

std::string remedy(const Domain& domain, int error, const MemoryRange& range) {
    const std::string_view provider = domain.info().fabric_attr->prov_name;
    if (error == FI_ENOMEM) return out_of_memory(domain.caps(), range);
    if (error == FI_ENOSPC || error == FI_ENOKEY || error == FI_E2BIG) {
        return "; the device has no room for another registration of " + std::to_string(range.length) +
               " bytes (keys or pages): register fewer or smaller ranges, or use huge pages";
    }
    if (error == FI_EAGAIN) return "; the device or its driver is out of something for now: try again";
    if (error == FI_EFAULT && provider.starts_with("verbs")) {
        return "; the range is not mapped whole, or it is without PROT_WRITE, which the cache of "
               "registrations "
               "of verbs asks for whatever the memory is for: set FI_MR_CACHE_MONITOR=disabled, or map it "
               "writable";
    }
    if (error == FI_EFAULT) {
        return "; the range is not mapped whole, or it is without PROT_WRITE, which EFA with RDMA WRITE asks "
               "for "
               "whatever the memory is for: map it writable (MAP_PRIVATE leaves a file as it is)";
    }
    return "";
}

std::string gpu_remedy(int gpu) {
    return "; a NIC reaches GPU " + std::to_string(gpu) +
           " through the kernel module nvidia-peermem (efa_nv_peermem), or through a dmabuf (Linux 5.12, "
           "libfabric 1.20): have one of them, or set vram_staging=always";
}

std::string no_room_for_gpu(const MemoryRange& range) {
    return "; " + std::to_string(range.length) + " bytes asked, and GPU " + std::to_string(range.gpu) +
           " has no such room left in its window on the bus (BAR1, see `nvidia-smi -q -d MEMORY`), or the "
           "NIC has none: register less at a time";
}

int register_once(const Domain& domain, fi_mr_attr attr, std::uint64_t flags, fid_mr** region) {
    std::uint64_t wished = std::exchange(attr.requested_key, 0);
    const ProviderCaps& caps = domain.caps();
    const std::uint64_t mask =
        caps.key_size >= 8 ? UINT64_MAX : (std::uint64_t{1} << (8 * caps.key_size)) - 1;
    int rc = 0;
    // Keys of ours are random: nothing about the process is to be read from them, and guessing one is
    // hopeless.
    for (int attempt = 0; attempt < 16; ++attempt) {
        if (!caps.provider_keys) {
            const std::uint64_t key = (wished != 0 ? std::exchange(wished, 0) : random_u64()) & mask;
            attr.requested_key = key < caps.least_key ? key + caps.least_key : key;
        }
        rc = fi_mr_regattr(domain.get(), &attr, flags, region);
        if (rc != -FI_ENOKEY || caps.provider_keys) return rc;
    }
    return rc;
}

/// ENOTSUPP, which the kernel has and the C library does not: what a NIC's driver answers to a dmabuf that it
/// cannot map.
constexpr int not_supported_by_kernel = 524;

/// What providers answer that have no dmabufs, or none of this exporter's.
bool has_no_dmabuf(int rc) {
    return rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL || rc == -FI_ENOSYS || rc == -FI_EBADFLAGS ||
           rc == -not_supported_by_kernel;
}

#ifdef FI_MR_DMABUF

/// A library older than these headers would take the description for an address.
bool library_knows_dmabuf() {
    return fi_version() >= FI_VERSION(1, 20);
}

int register_dmabuf(const Domain& domain, const MemoryRange& range, fi_mr_attr attr, fid_mr** region) {
    fi_mr_dmabuf buffer{};
    buffer.fd = range.dmabuf;
    buffer.offset = range.address - range.dmabuf_base;
    buffer.len = range.length;
    buffer.base_addr = reinterpret_cast<void*>(range.dmabuf_base);
    attr.dmabuf = &buffer;
    return register_once(domain, attr, FI_MR_DMABUF, region);
}
#endif

int register_range(const Domain& domain, const MemoryRange& range, std::uint64_t access, fid_mr** region) {
    iovec piece{reinterpret_cast<void*>(range.address), range.length};
    fi_mr_attr attr{};
    attr.mr_iov = &piece;
    attr.iov_count = 1;
    attr.access = access;
    attr.requested_key = range.key;
    if (range.gpu >= 0) {
        attr.iface = FI_HMEM_CUDA;
        attr.device.cuda = range.gpu;
    }
#ifdef FI_MR_DMABUF
    if (range.gpu >= 0 && range.dmabuf >= 0 && library_knows_dmabuf()) {
        const int rc = register_dmabuf(domain, range, attr, region);
        if (!has_no_dmabuf(rc) || range.dmabuf_alone) return rc;
        RAILYARD_LOG(debug, domain.rail().c_str(), "no dmabuf of GPU %d: %s; by address, then", range.gpu,
                     fi_strerror(-rc));
    }
#endif
    return register_once(domain, attr, 0, region);
}

std::string failure(const Domain& domain, const MemoryRange& range, int rc) {
    std::string text = "fi_mr_regattr ";
    if (range.gpu >= 0) text += "of memory of GPU " + std::to_string(range.gpu) + " ";
    text += "failed on " + domain.rail() + ": " + fi_strerror(-rc) + " (" + std::to_string(rc) + ")";
    return text;
}

std::string remedy_for_gpu(const Domain& domain, int error, const MemoryRange& range) {
    if (error == FI_ENOMEM) return no_room_for_gpu(range);
    const bool same_as_of_host =
        error == FI_ENOSPC || error == FI_ENOKEY || error == FI_E2BIG || error == FI_EAGAIN;
    return same_as_of_host ? remedy(domain, error, range) : gpu_remedy(range.gpu);
}

[[noreturn]] void refuse(const Domain& domain, const MemoryRange& range, int rc) {
    const std::string text = failure(domain, range, rc), lacking = shortage();
    const bool of_gpu = range.gpu >= 0;
    if (range.dmabuf_alone && has_no_dmabuf(rc))
        throw Error(Status::not_supported, text + gpu_remedy(range.gpu));
    // Of GPU memory it is a descriptor of a dmabuf that was lacking, whatever the provider says without one.
    const std::string wanted = of_gpu && !lacking.empty() ? std::string()
                               : of_gpu                   ? remedy_for_gpu(domain, -rc, range)
                                                          : remedy(domain, -rc, range);
    if (rc == -FI_EAGAIN || !lacking.empty()) throw PassingError(Status::backend, text + wanted + lacking);
    throw Error(Status::backend, text + wanted);
}

/// Where its own attempt to register GPU memory has failed, efa gives a key that no device has, and reports
/// success: efa-direct goes through a null pointer with the first operation on such memory.
bool was_left_out(const Domain& domain, std::uint64_t key) {
    return domain.caps().codes == Codes::efa && key > UINT32_MAX;
}

}  // namespace

MemoryRegion::MemoryRegion(const Domain& domain, const Endpoint& endpoint, const MemoryRange& range) {
    if (range.gpu >= 0 && !endpoint.reaches_gpu_memory()) {
        throw Error(Status::not_supported, domain.rail() + " does not reach memory of GPU " +
                                               std::to_string(range.gpu) + "; set vram_staging=auto");
    }
    std::uint64_t flags = FI_SEND | FI_WRITE | FI_REMOTE_READ;
    if (range.writable) flags |= FI_RECV | FI_READ | FI_REMOTE_WRITE;
    fid_mr* region = nullptr;
    const int rc = register_range(domain, range, flags, &region);
    if (rc != 0) refuse(domain, range, rc);
    region_ = Fid<fid_mr>(region);
    if (domain.caps().endpoint_registration) {
        check(fi_mr_bind(region, endpoint.handle(), 0), "fi_mr_bind", domain.rail());
        check(fi_mr_enable(region), "fi_mr_enable", domain.rail());
    }
    key_ = fi_mr_key(region);
    if (key_ == FI_KEY_NOTAVAIL) {
        throw Error(Status::not_supported,
                    "provider of " + domain.rail() + " uses raw memory keys, which are not supported");
    }
    if (range.gpu >= 0 && was_left_out(domain, key_)) {
        throw Error(Status::not_supported,
                    "libfabric found no peer-to-peer between GPU " + std::to_string(range.gpu) +
                        " and EFA when it was loaded, and " + domain.rail() + " has registered nothing" +
                        gpu_remedy(range.gpu) + "; FI_HMEM_DISABLE_P2P must not be set");
    }
    address_base_ = domain.caps().virtual_addresses ? 0 : range.address;
    // A thread may close it long after the rail has gone, and libfabric go on until then.
    if (range.owner && domain.caps().waits_to_close) domain.keep(range.owner);
}

}  // namespace railyard::fabric
