#include "provider/hints.h"

#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "provider/device_limits.h"
#include "provider/environment.h"
#include "shared/cluster.h"

namespace simefa {
namespace {

constexpr std::uint64_t primary_caps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST |
                                       FI_NAMED_RX_CTX | FI_DIRECTED_RECV | FI_HMEM | FI_COLLECTIVE;
constexpr std::uint64_t modifiers = FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t rma_modifiers = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr int memory_basic = 1;     // FI_MR_BASIC, which later headers call deprecated
constexpr int memory_scalable = 2;  // FI_MR_SCALABLE
constexpr int rma_memory_bits = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;

bool within(std::uint64_t wanted, std::uint64_t offered) {
    return (wanted & ~offered) == 0;
}

bool same_if_given(const char* wanted, const char* offered) {
    return !wanted || std::strcmp(wanted, offered) == 0;
}

/// What the client accepts in the old spelling stands for these bits.
int accepted_memory_bits(int wanted) {
    if (wanted == memory_basic) return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    return wanted;
}

/// Bits of mr_mode that matter for these capabilities.
int needed_memory_bits(int offered, std::uint64_t caps) {
    if (!(caps & FI_RMA)) offered &= ~rma_memory_bits;
    if (!(caps & FI_HMEM)) offered &= ~FI_MR_HMEM;
    return offered;
}

bool memory_fits(const fi_info& info, const fi_info& hints) {
    if (!hints.domain_attr) return true;
    const int wanted = hints.domain_attr->mr_mode;
    if ((hints.caps & FI_HMEM) && !(wanted & FI_MR_HMEM)) return false;
    if (wanted == 0) return true;
    if (wanted == memory_scalable) return false;
    const std::uint64_t caps = hints.caps ? hints.caps : info.caps & ~std::uint64_t{FI_HMEM};
    const int needed = needed_memory_bits(info.domain_attr->mr_mode, caps);
    return within(static_cast<unsigned>(needed), static_cast<unsigned>(accepted_memory_bits(wanted)));
}

bool domain_fits(const fi_info& info, const fi_domain_attr& wanted) {
    const fi_domain_attr& offered = *info.domain_attr;
    auto progress_fits = [](fi_progress asked, fi_progress has) {
        return asked != FI_PROGRESS_AUTO || has == FI_PROGRESS_AUTO;
    };
    return same_if_given(wanted.name, offered.name) &&
           progress_fits(wanted.data_progress, offered.data_progress) &&
           progress_fits(wanted.control_progress, offered.control_progress) &&
           wanted.cq_data_size <= offered.cq_data_size && wanted.mr_key_size <= 8 &&
           wanted.ep_cnt <= offered.ep_cnt && wanted.cq_cnt <= offered.cq_cnt && wanted.max_ep_tx_ctx <= 1 &&
           wanted.max_ep_rx_ctx <= 1 && wanted.max_ep_srx_ctx == 0 && wanted.max_ep_stx_ctx == 0 &&
           wanted.mr_iov_limit <= offered.mr_iov_limit && within(wanted.caps, offered.caps);
}

bool endpoint_fits(const fi_info& info, const fi_ep_attr& wanted, const fi_info& hints) {
    if (wanted.type != FI_EP_UNSPEC && wanted.type != FI_EP_RDM) return false;
    if (wanted.protocol != FI_PROTO_UNSPEC && wanted.protocol != FI_PROTO_EFA) return false;
    // Without FI_RMA a direct endpoint moves messages only, and these are short.
    const bool messages_only = info.ep_attr->max_msg_size == max_rdma && hints.caps && !(hints.caps & FI_RMA);
    const std::size_t longest = messages_only ? mtu : info.ep_attr->max_msg_size;
    return wanted.max_msg_size <= longest && wanted.tx_ctx_cnt <= 1 && wanted.rx_ctx_cnt <= 1 &&
           wanted.auth_key_size == 0;
}

bool transmit_fits(const fi_info& info, const fi_tx_attr& wanted) {
    const fi_tx_attr& offered = *info.tx_attr;
    return within(wanted.caps & ~info.domain_attr->caps, offered.caps) &&
           within(wanted.op_flags, offered.op_flags) && within(wanted.msg_order, offered.msg_order) &&
           wanted.inject_size <= offered.inject_size && wanted.size <= offered.size &&
           wanted.iov_limit <= offered.iov_limit && wanted.rma_iov_limit <= offered.rma_iov_limit &&
           (!wanted.mode || within(offered.mode, wanted.mode));
}

bool receive_fits(const fi_info& info, const fi_rx_attr& wanted) {
    const fi_rx_attr& offered = *info.rx_attr;
    return within(wanted.caps & ~info.domain_attr->caps, offered.caps) &&
           within(wanted.op_flags, offered.op_flags) && within(wanted.msg_order, offered.msg_order) &&
           wanted.size <= offered.size && wanted.iov_limit <= offered.iov_limit &&
           (!wanted.mode || within(offered.mode, wanted.mode));
}

bool is_wanted_device(const fi_info& info, const fi_info& hints) {
    if (hints.src_addr && (hints.src_addrlen != address_size ||
                           std::memcmp(hints.src_addr, info.src_addr, sizeof(Address::gid)) != 0))
        return false;
    if (hints.nic && hints.nic->bus_attr && hints.nic->bus_attr->bus_type == FI_BUS_PCI) {
        const fi_pci_attr& wanted = hints.nic->bus_attr->attr.pci;
        const fi_pci_attr& has = info.nic->bus_attr->attr.pci;
        if (wanted.domain_id != has.domain_id || wanted.bus_id != has.bus_id ||
            wanted.device_id != has.device_id)
            return false;
    }
    return true;
}

void narrow_capabilities(fi_info& info, const fi_info& hints) {
    if (!hints.caps) {
        // HMEM is never given unasked.
        info.caps &= ~std::uint64_t{FI_HMEM};
    } else {
        std::uint64_t kept = info.caps & (hints.caps | ~(primary_caps | modifiers));
        // Asking for RMA or messages without saying which direction means all of them.
        if ((hints.caps & FI_RMA) && !(hints.caps & rma_modifiers)) kept |= info.caps & rma_modifiers;
        if ((hints.caps & (FI_MSG | FI_TAGGED)) && !(hints.caps & (FI_SEND | FI_RECV)))
            kept |= info.caps & (FI_SEND | FI_RECV);
        info.caps = kept;
        if ((hints.caps & FI_REMOTE_COMM) && !(hints.caps & FI_LOCAL_COMM))
            info.caps &= ~std::uint64_t{FI_LOCAL_COMM};
    }
    info.tx_attr->caps &= info.caps;
    info.rx_attr->caps &= info.caps;
}

}  // namespace

bool satisfies(const fi_info& info, FabricKind kind, const fi_info* hints) {
    if (!hints) return true;
    if (!within(hints->caps, info.caps)) return false;
    if (hints->mode && !within(info.mode, hints->mode)) return false;
    if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != FI_ADDR_EFA) return false;
    if (hints->fabric_attr && !same_if_given(hints->fabric_attr->name, fabric_name(kind))) return false;
    return is_wanted_device(info, *hints) && memory_fits(info, *hints) &&
           (!hints->domain_attr || domain_fits(info, *hints->domain_attr)) &&
           (!hints->ep_attr || endpoint_fits(info, *hints->ep_attr, *hints)) &&
           (!hints->tx_attr || transmit_fits(info, *hints->tx_attr)) &&
           (!hints->rx_attr || receive_fits(info, *hints->rx_attr));
}

void narrow(fi_info& info, FabricKind kind, bool unsolicited, const fi_info* hints) {
    if (!hints) return;
    narrow_capabilities(info, *hints);
    fi_domain_attr& domain = *info.domain_attr;
    domain.mr_mode = needed_memory_bits(domain.mr_mode, info.caps);
    if (kind == FabricKind::direct && !(info.caps & FI_RMA)) info.ep_attr->max_msg_size = mtu;
    // Asked for, immediate data takes a receive buffer: the endpoint then does without unsolicited receives.
    if (kind == FabricKind::direct && (hints->mode & FI_RX_CQ_DATA)) {
        info.mode |= FI_RX_CQ_DATA;
        info.rx_attr->mode |= FI_RX_CQ_DATA;
    } else if (kind == FabricKind::direct && !unsolicited) {
        domain.cq_data_size = 0;
    }
    if (const fi_domain_attr* wanted = hints->domain_attr) {
        if (wanted->threading != FI_THREAD_UNSPEC) domain.threading = wanted->threading;
        if (wanted->control_progress != FI_PROGRESS_UNSPEC)
            domain.control_progress = wanted->control_progress;
        if (wanted->data_progress != FI_PROGRESS_UNSPEC) domain.data_progress = wanted->data_progress;
        if (wanted->resource_mgmt != FI_RM_UNSPEC) domain.resource_mgmt = wanted->resource_mgmt;
        if (wanted->mr_mode & FI_MR_LOCAL) domain.mr_mode |= FI_MR_LOCAL;
    }
    if (const fi_tx_attr* wanted = hints->tx_attr) {
        if (wanted->size) info.tx_attr->size = wanted->size;
        if (wanted->inject_size) info.tx_attr->inject_size = wanted->inject_size;
        if (wanted->iov_limit) info.tx_attr->iov_limit = wanted->iov_limit;
        // What is not asked for is off, not what the provider could do.
        info.tx_attr->op_flags = wanted->op_flags;
        info.tx_attr->msg_order &= wanted->msg_order;
    }
    if (const fi_rx_attr* wanted = hints->rx_attr) {
        if (wanted->size) info.rx_attr->size = wanted->size;
        if (wanted->iov_limit) info.rx_attr->iov_limit = wanted->iov_limit;
        info.rx_attr->op_flags = wanted->op_flags;
        info.rx_attr->msg_order &= wanted->msg_order;
    }
    if (hints->dest_addr && hints->dest_addrlen == address_size) {
        info.dest_addr = std::malloc(address_size);
        if (info.dest_addr) {
            std::memcpy(info.dest_addr, hints->dest_addr, address_size);
            info.dest_addrlen = address_size;
        }
    }
}

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** result) {
    *result = nullptr;
    // Addresses travel out of band; names of peers or services mean nothing here.
    if ((node || service) && !(flags & FI_SOURCE)) return -FI_ENODATA;
    try {
        const auto cluster = Cluster::attach(environment().cluster);
        fi_info** tail = result;
        for (const FabricKind kind : {FabricKind::direct, FabricKind::rdm}) {
            for (const NicDescription& nic : nic_table()) {
                const NicSlot& slot = cluster->nic(environment().host, nic.name, environment().initial);
                if (slot.get(Setting::gone)) continue;
                fi_info* info = make_info(nic, kind, version);
                if (!info) {
                    free_info(*result);
                    *result = nullptr;
                    return -FI_ENOMEM;
                }
                if (!satisfies(*info, kind, hints)) {
                    free_info(info);
                    continue;
                }
                narrow(*info, kind, slot.on(Setting::unsolicited), hints);
                *tail = info;
                tail = &info->next;
            }
        }
        return *result ? 0 : -FI_ENODATA;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "simefa: %s\n", error.what());
        free_info(*result);
        *result = nullptr;
        return -FI_ENODATA;
    }
}

}  // namespace simefa
