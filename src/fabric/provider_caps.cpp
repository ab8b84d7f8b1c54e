#include "fabric/provider_caps.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <strings.h>

#include <algorithm>
#include <string_view>

#include "fabric/sockets.h"

namespace railyard::fabric {

namespace {

// enum c_return_code of HPE's cassini_user_defs.h, which libfabric does not bring along. Two public copies of
// that header say the same numbers.
constexpr int cxi_no_entry = 18;    // C_RC_ENTRY_NOT_FOUND: nothing is registered there by that key
constexpr int cxi_no_target = 19;   // C_RC_NO_TARGET_CONN
constexpr int cxi_no_process = 26;  // C_RC_PTLTE_NOT_FOUND: what cxi's own tests expect of nobody there

// enum ibv_wc_status, which verbs hands on beside FI_EIO, under ofi_rxm, too.
constexpr int verbs_remote_access = 10;
constexpr int verbs_retries_exceeded = 12, verbs_not_ready = 13, verbs_aborted = 16, verbs_timeout = 20;

/// p4d, c5n and others: a device without RDMA WRITE.
bool is_first_efa(const fi_info& info) {
    if (!info.nic || !info.nic->device_attr || !info.nic->device_attr->device_id) return false;
    return std::string_view(info.nic->device_attr->device_id) == "0xefa0";
}

/// FI_EFA_USE_UNSOLICITED_WRITE_RECV=0, which no description of a device tells of.
bool told_to_spend_receives() noexcept {
    static const bool told = [] {
        fi_param* params = nullptr;
        int count = 0;
        if (fi_getparams(&params, &count) != 0 || !params) return false;
        bool no = false;
        for (int i = 0; i < count; ++i) {
            if (std::string_view(params[i].name) == "FI_EFA_USE_UNSOLICITED_WRITE_RECV")
                no = says_no(params[i].value);
        }
        fi_freeparams(params);
        return no;
    }();
    return told;
}

/// Of efa-direct. The entries of fabric efa say nothing of it: what is known of that, Offers finds out.
bool spends_no_receives(const fi_info& info) noexcept {
    return (info.mode & FI_RX_CQ_DATA) == 0 && !told_to_spend_receives();
}

}  // namespace

bool says_no(const char* value) noexcept {
    if (!value) return false;
    for (const char* const no : {"0", "no", "false", "off"}) {
        if (strcasecmp(value, no) == 0) return true;
    }
    return false;
}

ProviderCaps provider_caps(const fi_info& info) {
    ProviderCaps caps;
    const int mr_mode = info.domain_attr->mr_mode;
    caps.virtual_addresses = (mr_mode & FI_MR_VIRT_ADDR) != 0;
    caps.provider_keys = (mr_mode & FI_MR_PROV_KEY) != 0;
    caps.local_descriptors = (mr_mode & FI_MR_LOCAL) != 0;
    caps.endpoint_registration = (mr_mode & FI_MR_ENDPOINT) != 0;
    const std::string_view provider = info.fabric_attr->prov_name;
    const bool shm = provider == "shm", efa = provider == "efa", cxi = provider == "cxi";
    if (efa) caps.codes = Codes::efa;
    if (cxi) caps.codes = Codes::cxi;
    if (provider.substr(0, 5) == "verbs") caps.codes = Codes::verbs;
    caps.blocking_wait = !shm;  // shm answers FI_WAIT_FD with ENOSYS (1.17)
    caps.shares_endpoints = caps.keeps_addresses = shm;
    if (shm) caps.most_peers = 256;  // SMR_MAX_PEERS; tried with libfabric 1.17
    // Where it copies directly, shm's completion means placed. Asking for FI_DELIVERY_COMPLETE as well turns
    // the direct copy off and leaves one small operation in flight at a time. Seen with 1.17; 2.x has not
    // been looked at.
    caps.direct_rma = shm && caps.virtual_addresses && FI_MAJOR(fi_version()) == 1;
    caps.stale_wait_signal = provider == "net";
    const bool direct =
        efa && info.fabric_attr->name && std::string_view(info.fabric_attr->name) == "efa-direct";
    caps.needs_introduction = caps.completes_placed = caps.spoils_queue = direct;
    caps.separate_sender = !caps.shares_endpoints && !caps.endpoint_registration;
    caps.late_after_error = caps.loses_answers = caps.own_vectors = caps.reads_before_close = efa;
    caps.may_limit_pages = efa && !is_first_efa(info);
    caps.rings_for_more = !efa || direct;
    caps.shares_memory = caps.waits_to_close = caps.own_receives = efa && !direct;
    caps.tells_of_refused_keys = direct && caps.virtual_addresses;  // efa may emulate, and says others
    caps.sends_into_sockets = provider == "net" || provider.substr(0, 3) == "tcp";
    caps.stays_on_host =
        caps.sends_into_sockets && info.src_addr &&
        is_loopback({static_cast<const char*>(info.src_addr), static_cast<std::size_t>(info.src_addrlen)});
    // One sends while the other's bytes are received; over loopback one alone is faster, unpaced
    // (LoopbackConnections).
    if (caps.sends_into_sockets && !caps.stays_on_host) caps.usual_rails = 2;
    caps.connected = info.ep_attr->type == FI_EP_MSG;
    caps.answers_at_sender =
        caps.sends_into_sockets && caps.separate_sender && !caps.connected && !caps.local_descriptors;
    // cxi says 8 bytes, and refuses every write that brings some (FI_EBADFLAGS, up to 2.4). The shared
    // receive context of verbs tells of one as of a message, as long as what was written.
    const bool takes_none = cxi || (caps.connected && provider == "verbs");
    caps.immediate_data = !takes_none && info.domain_attr->cq_data_size >= sizeof(std::uint32_t);
    caps.tells_of_writes = direct && caps.immediate_data && spends_no_receives(info);
    caps.messages_tell = efa && !direct && caps.immediate_data;
    caps.retries_for_ever = direct && spends_no_receives(info);
    // Only under FI_MR_HMEM do providers look at where a region lies.
    caps.gpu_memory = (info.caps & FI_HMEM) && (mr_mode & FI_MR_HMEM);
    // cxi makes another kind of registration of keys below CXIP_PTL_IDX_MR_OPT_CNT. It allows all of 32 bits.
    if (cxi && !caps.provider_keys) caps.least_key = 100;
    caps.key_size = std::clamp<std::size_t>(info.domain_attr->mr_key_size, 1, 8);
    // shm writes several pieces by way of the peer, and says that they are there when it has asked it to.
    if (!shm)
        caps.rma_pieces =
            std::max<std::size_t>(std::min(info.tx_attr->iov_limit, info.tx_attr->rma_iov_limit), 1);
    caps.max_rma = info.ep_attr->max_msg_size;
    if (shm && info.tx_attr->inject_size >= 2048) caps.max_eager = info.tx_attr->inject_size;
    caps.transmit_depth = info.tx_attr->size;
    return caps;
}

Status classify_failure(Codes codes, int error, int provider_error) noexcept {
    // For longer than the provider tries.
    if (receiver_not_ready(codes, error, provider_error)) return Status::remote_disconnect;
    if (codes == Codes::cxi && (provider_error == cxi_no_target || provider_error == cxi_no_process))
        return Status::remote_disconnect;
    if (codes == Codes::verbs && error == FI_EIO &&
        (provider_error == verbs_retries_exceeded || provider_error == verbs_not_ready ||
         provider_error == verbs_aborted || provider_error == verbs_timeout))
        return Status::remote_disconnect;
    if (codes == Codes::efa) {
        // The device's "peer gone" family: unresponsive, aborted, unreachable, connection reset by a new
        // instance.
        // And that of the device itself: flushed, internal error.
        for (int gone : {1, 2, 8, 9, 13, 15, 4124, 4126, 4127}) {
            if (provider_error == gone) return Status::remote_disconnect;
        }
    }
    switch (error) {
        case FI_ECONNRESET:
        case FI_ECONNABORTED:
        case FI_ECONNREFUSED:
        case FI_ENOTCONN:
        case FI_ESHUTDOWN:
        case FI_EHOSTUNREACH:
        case FI_EHOSTDOWN:
        case FI_ENETUNREACH:
        case FI_ETIMEDOUT:
        case FI_ECANCELED:  // what tcp flushes the operations of a broken connection with
        case EPIPE:
        case FI_ENODEV:
        case ENETDOWN:
            return Status::remote_disconnect;
        default:
            return Status::backend;
    }
}

bool receiver_not_ready(Codes codes, int error, int provider_error) noexcept {
    constexpr int efa_remote_rnr = 10;  // EFA_IO_COMP_STATUS_REMOTE_ERROR_RNR
    return error == FI_ENORX || (codes == Codes::efa && provider_error == efa_remote_rnr);
}

bool refused_here(Codes codes, int provider_error) noexcept {
    // EFA_IO_COMP_STATUS_LOCAL_ERROR_*: unsupported, invalid AH, invalid key, bad length.
    return codes == Codes::efa && provider_error >= 3 && provider_error <= 6;
}

bool unknown_at_target(Codes codes, int provider_error) noexcept {
    constexpr int efa_unknown_peer = 14;  // EFA_IO_COMP_STATUS_REMOTE_ERROR_UNKNOWN_PEER
    return codes == Codes::efa && provider_error == efa_unknown_peer;
}

bool flushed(Codes codes, int provider_error) noexcept {
    constexpr int efa_flushed = 1;  // EFA_IO_COMP_STATUS_FLUSHED
    return codes == Codes::efa && provider_error == efa_flushed;
}

bool key_refused(Codes codes, int provider_error) noexcept {
    constexpr int efa_bad_address = 7;  // EFA_IO_COMP_STATUS_REMOTE_ERROR_BAD_ADDRESS
    return (codes == Codes::efa && provider_error == efa_bad_address) ||
           (codes == Codes::cxi && provider_error == cxi_no_entry) ||
           (codes == Codes::verbs && provider_error == verbs_remote_access);
}

}  // namespace railyard::fabric
