// Names of later libfabric headers, with the values that its ABI fixed, for those that do not have them.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>

#include <cstddef>
#include <cstdint>

namespace simefa {

// fi_endpoint.h, FI_OPT_ENDPOINT options of 1.18 and later.
inline constexpr int opt_cuda_api_permitted = 10;
inline constexpr int opt_shared_memory_permitted = 11;
inline constexpr int opt_max_msg_size = 12;
inline constexpr int opt_max_tagged_size = 13;
inline constexpr int opt_max_rma_size = 14;
inline constexpr int opt_max_atomic_size = 15;
inline constexpr int opt_inject_msg_size = 16;
inline constexpr int opt_inject_tagged_size = 17;
inline constexpr int opt_inject_rma_size = 18;
inline constexpr int opt_inject_atomic_size = 19;

// fi_ext.h, options of efa.
inline constexpr int opt_efa_rnr_retry = -(0xefa << 16);
inline constexpr int opt_efa_emulated_read = opt_efa_rnr_retry + 1;
inline constexpr int opt_efa_emulated_write = opt_efa_rnr_retry + 2;
inline constexpr int opt_efa_emulated_atomics = opt_efa_rnr_retry + 3;
inline constexpr int opt_efa_use_device_rdma = opt_efa_rnr_retry + 4;
inline constexpr int opt_efa_sendrecv_in_order = opt_efa_rnr_retry + 5;
inline constexpr int opt_efa_write_in_order = opt_efa_rnr_retry + 6;
inline constexpr int opt_efa_homogeneous_peers = opt_efa_rnr_retry + 7;
inline constexpr int opt_efa_use_unsolicited_write_recv = opt_efa_rnr_retry + 8;

// fi_domain.h 1.20: fi_mr_attr's first member may point to one of these instead.
inline constexpr std::uint64_t mr_dmabuf_flag = 1ULL << 40;
struct MrDmabuf {
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base_addr;
};

}  // namespace simefa
