// Endpoint options: what clients set is accepted, what they ask is answered.
#include <rdma/fi_errno.h>

#include <cstring>
#include <mutex>

#include "provider/compatibility.h"
#include "provider/device_limits.h"
#include "provider/endpoint.h"

namespace simefa {
namespace {

template <class T>
int give(T answer, void* value, std::size_t* length) noexcept {
    if (*length < sizeof(T)) {
        *length = sizeof(T);
        return -FI_ETOOSMALL;
    }
    std::memcpy(value, &answer, sizeof(T));
    *length = sizeof(T);
    return 0;
}

template <class T>
int take(T& into, const void* value, std::size_t length) noexcept {
    if (length != sizeof(T)) return -FI_EINVAL;
    std::memcpy(&into, value, sizeof(T));
    return 0;
}

}  // namespace

int Endpoint::getopt(::fid* handle, int level, int name, void* value, std::size_t* length) {
    Endpoint& self = *from(handle);
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    const std::lock_guard lock(self.domain_.mutex());
    DeviceRdma rdma = device_rdma(self.nic().description());
    if (!self.direct_ && !self.use_device_rdma_) rdma = {};
    switch (name) {
        case opt_max_msg_size:
            return give<std::size_t>(self.max_message_, value, length);
        case opt_max_tagged_size:
            return give<std::size_t>(self.direct_ ? 0 : self.max_message_, value, length);
        case opt_max_rma_size:
            return give<std::size_t>(self.direct_ ? max_rdma : self.max_message_, value, length);
        case opt_max_atomic_size:
            return give<std::size_t>(0, value, length);
        case opt_inject_msg_size:
            return give<std::size_t>(self.inject_size_, value, length);
        case opt_inject_tagged_size:
            return give<std::size_t>(self.direct_ ? 0 : self.inject_size_, value, length);
        // The device has no inline data for RDMA; the protocol copies.
        case opt_inject_rma_size:
            return give<std::size_t>(self.direct_ ? 0 : self.inject_size_, value, length);
        case opt_inject_atomic_size:
            return give<std::size_t>(0, value, length);
        case opt_efa_rnr_retry:
            return give<std::size_t>(self.not_ready_limit_, value, length);
        case opt_efa_emulated_read:
            return give<bool>(!rdma.read, value, length);
        case opt_efa_emulated_write:
            return give<bool>(!rdma.write, value, length);
        case opt_efa_emulated_atomics:
            return give<bool>(true, value, length);
        case opt_efa_use_device_rdma:
            return give<bool>(self.direct_ || self.use_device_rdma_, value, length);
        case opt_efa_use_unsolicited_write_recv:
            return give<bool>(self.unsolicited_, value, length);
        case FI_OPT_FI_HMEM_P2P:
            return give<int>(self.peer_to_peer_, value, length);
        case opt_cuda_api_permitted:
            return give<bool>(self.cuda_permitted_, value, length);
        case opt_shared_memory_permitted:
            return give<bool>(self.shared_memory_permitted_, value, length);
        default:
            return -FI_ENOPROTOOPT;
    }
}

/// How GPU memory is to be treated, which is settled when the endpoint is enabled.
int Endpoint::set_gpu_option(int name, const void* value, std::size_t length) noexcept {
    if (enabled_) return -FI_EOPBADSTATE;
    if (name == opt_cuda_api_permitted) return take(cuda_permitted_, value, length);
    if (name == opt_shared_memory_permitted) return take(shared_memory_permitted_, value, length);
    int wanted = 0;
    if (const int rc = take(wanted, value, length)) return rc;
    if (wanted < FI_HMEM_P2P_ENABLED || wanted > FI_HMEM_P2P_DISABLED) return -FI_EINVAL;
    // efa-direct takes it, whether or not there is any.
    if (wanted == FI_HMEM_P2P_REQUIRED && !direct_ && !nic().slot().on(Setting::gpu_peer_to_peer))
        return -FI_EOPNOTSUPP;
    if (wanted == FI_HMEM_P2P_DISABLED && direct_) return -FI_EOPNOTSUPP;
    peer_to_peer_ = wanted;
    return 0;
}

int Endpoint::setopt(::fid* handle, int level, int name, const void* value, std::size_t length) {
    Endpoint& self = *from(handle);
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    const std::lock_guard lock(self.domain_.mutex());
    bool flag = false;
    std::size_t size = 0;
    switch (name) {
        case opt_efa_rnr_retry:
            if (self.enabled_) return -FI_EOPBADSTATE;
            if (const int rc = take(size, value, length)) return rc;
            if (size > 7) return -FI_EINVAL;
            self.not_ready_limit_ = static_cast<unsigned>(size);
            return 0;
        case opt_efa_use_device_rdma:
            if (const int rc = take(flag, value, length)) return rc;
            if (self.enabled_ || (flag && !device_rdma(self.nic().description()).read)) return -FI_EOPNOTSUPP;
            if (self.direct_ && !flag) return -FI_EOPNOTSUPP;
            self.use_device_rdma_ = flag;
            return 0;
        case opt_efa_use_unsolicited_write_recv:
            if (const int rc = take(flag, value, length)) return rc;
            if (self.enabled_) return -FI_EOPBADSTATE;
            self.unsolicited_ = flag;
            return 0;
        // The device promises no order inside an operation.
        case opt_efa_sendrecv_in_order:
        case opt_efa_write_in_order:
            if (const int rc = take(flag, value, length)) return rc;
            return flag ? -FI_EOPNOTSUPP : 0;
        case opt_efa_homogeneous_peers:
            return take(flag, value, length);
        case opt_cuda_api_permitted:
        case opt_shared_memory_permitted:
        case FI_OPT_FI_HMEM_P2P:
            return self.set_gpu_option(name, value, length);
        case FI_OPT_MIN_MULTI_RECV:
            return take(size, value, length);
        case opt_max_msg_size:
        case opt_max_tagged_size:
        case opt_max_rma_size:
            return take(size, value, length);
        default:
            return -FI_ENOPROTOOPT;
    }
}

}  // namespace simefa
