#include "provider/info.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "provider/device_limits.h"
#include "provider/environment.h"
#include "provider/nic_fid.h"
#include "shared/cluster.h"

namespace simefa {
namespace {

constexpr std::uint64_t message_tx = FI_MSG | FI_SEND;
constexpr std::uint64_t message_rx = FI_MSG | FI_RECV | FI_SOURCE;
constexpr std::uint64_t rma_tx = FI_RMA | FI_READ | FI_WRITE;
constexpr std::uint64_t rma_rx = FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t rdm_rx = FI_TAGGED | FI_DIRECTED_RECV;

/// With slack: a newer libfabric copies structures that have grown since these headers.
template <class T>
T* make_zeroed() {
    return static_cast<T*>(std::calloc(1, sizeof(T) + 256));
}

void fill_capabilities(fi_info& info, FabricKind kind, bool rma, bool gpu_memory) {
    const std::uint64_t hmem = gpu_memory ? FI_HMEM : 0;
    info.tx_attr->caps = message_tx | hmem | (rma ? rma_tx : 0) | (kind == FabricKind::rdm ? FI_TAGGED : 0);
    info.rx_attr->caps = message_rx | hmem | (rma ? rma_rx : 0) | (kind == FabricKind::rdm ? rdm_rx : 0);
    info.domain_attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    info.caps = info.tx_attr->caps | info.rx_attr->caps | info.domain_attr->caps;
    info.mode = info.tx_attr->mode = info.rx_attr->mode = kind == FabricKind::direct ? FI_CONTEXT2 : 0;
}

void fill_queues(fi_info& info, FabricKind kind) {
    const bool direct = kind == FabricKind::direct;
    fi_tx_attr& tx = *info.tx_attr;
    tx.op_flags = FI_COMPLETION | FI_INJECT | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
    tx.msg_order = direct ? 0 : FI_ORDER_SAS;
    tx.inject_size = direct ? inject_direct : inject_rdm;
    tx.size = transmit_depth;
    tx.iov_limit = segment_limit;
    tx.rma_iov_limit = 1;
    fi_rx_attr& rx = *info.rx_attr;
    rx.op_flags = FI_COMPLETION;
    rx.msg_order = tx.msg_order;
    rx.size = receive_depth;
    rx.iov_limit = segment_limit;
    fi_ep_attr& ep = *info.ep_attr;
    ep.type = FI_EP_RDM;
    ep.protocol = FI_PROTO_EFA;
    ep.protocol_version = direct ? 1 : 4;
    ep.max_msg_size = direct ? (info.caps & FI_RMA ? max_rdma : mtu) : SIZE_MAX;
    ep.mem_tag_format = direct ? 0 : 0xaaaaaaaaaaaaaaaaULL;
    ep.tx_ctx_cnt = ep.rx_ctx_cnt = 1;
}

void fill_domain(fi_domain_attr& domain, const NicDescription& nic, FabricKind kind) {
    const bool direct = kind == FabricKind::direct;
    domain.name = strdup(nic.domain_name().c_str());
    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = domain.data_progress = direct ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = FI_AV_TABLE;
    domain.mr_mode =
        FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM | (direct ? FI_MR_LOCAL : 0);
    domain.mr_key_size = 4;
    domain.cq_data_size = 4;
    domain.cq_cnt = 512;
    domain.ep_cnt = domain.tx_ctx_cnt = domain.rx_ctx_cnt = endpoints_per_nic;
    domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
    domain.mr_iov_limit = 1;
    domain.mr_cnt = regions_per_nic;
}

bool fill_address(fi_info& info, const NicDescription& nic) {
    auto* address = make_zeroed<Address>();
    if (!address) return false;
    fill_gid(address->gid, environment().host, nic.name);
    info.addr_format = FI_ADDR_EFA;
    info.src_addr = address;
    info.src_addrlen = address_size;
    return true;
}

NicSlot& slot_of(const NicDescription& nic) {
    return Cluster::attach(environment().cluster)->nic(environment().host, nic.name, environment().initial);
}

/// Of the libfabric that loaded us; programs that load plugins keep its names to those (RTLD_LOCAL).
std::uint32_t library_version() noexcept {
    static const std::uint32_t version = [] {
        using VersionCall = std::uint32_t (*)();
        void* library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
        const auto call =
            reinterpret_cast<VersionCall>(dlsym(library ? library : RTLD_DEFAULT, "fi_version"));
        const std::uint32_t said = call ? call() : UINT32_MAX;
        if (library) dlclose(library);
        return said;
    }();
    return version;
}

}  // namespace

DeviceRdma device_rdma(const NicDescription& nic) {
    const auto cluster = Cluster::attach(environment().cluster);
    const NicSlot& slot = cluster->nic(environment().host, nic.name, environment().initial);
    auto decide = [&](Setting setting, bool generation) {
        const std::uint64_t said = slot.get(setting);
        return said == 0 ? generation : said == 2;
    };
    return {decide(Setting::rdma_read, nic.rdma_read), decide(Setting::rdma_write, nic.rdma_write)};
}

bool device_rdma_allowed(std::uint32_t api_version) noexcept {
    const std::uint32_t needed = FI_VERSION(1, 18);
    return api_version >= (environment().device_rdma_always ? std::min(needed, library_version()) : needed);
}

fi_info* make_info(const NicDescription& nic, FabricKind kind, std::uint32_t api_version) {
    fi_info* info = make_zeroed<fi_info>();
    if (!info) return nullptr;
    info->tx_attr = make_zeroed<fi_tx_attr>();
    info->rx_attr = make_zeroed<fi_rx_attr>();
    info->ep_attr = make_zeroed<fi_ep_attr>();
    info->domain_attr = make_zeroed<fi_domain_attr>();
    info->fabric_attr = make_zeroed<fi_fabric_attr>();
    const bool whole =
        info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr;
    const auto cluster = Cluster::attach(environment().cluster);
    if (whole) info->nic = make_nic(nic, slot_of(nic).get(Setting::link_down) == 0);
    if (!info->nic || !fill_address(*info, nic)) {
        free_info(info);
        return nullptr;
    }
    const DeviceRdma rdma = device_rdma(nic);
    fill_capabilities(
        *info, kind, kind == FabricKind::rdm || (rdma.read && rdma.write && device_rdma_allowed(api_version)),
        slot_of(nic).on(Setting::gpu_memory));
    fill_queues(*info, kind);
    fill_domain(*info->domain_attr, nic, kind);
    info->fabric_attr->name = strdup(fabric_name(kind));
    info->fabric_attr->api_version = api_version;
    return info;
}

void free_info(fi_info* info) noexcept {
    while (info) {
        fi_info* next = info->next;
        if (info->nic) fi_close(&info->nic->fid);
        if (info->domain_attr) std::free(info->domain_attr->name);
        if (info->fabric_attr) std::free(info->fabric_attr->name);
        for (void* part : {static_cast<void*>(info->tx_attr), static_cast<void*>(info->rx_attr),
                           static_cast<void*>(info->ep_attr), static_cast<void*>(info->domain_attr),
                           static_cast<void*>(info->fabric_attr), info->src_addr, info->dest_addr,
                           static_cast<void*>(info)})
            std::free(part);
        info = next;
    }
}

}  // namespace simefa
