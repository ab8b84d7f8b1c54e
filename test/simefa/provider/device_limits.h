// Numbers of the real device and its provider, as fi_info shows them on a p5.48xlarge.
#pragma once

#include <cstddef>

namespace simefa {

inline constexpr std::size_t mtu = 8760;           // longest message of efa-direct
inline constexpr std::size_t max_rdma = 1U << 30;  // longest READ or WRITE of efa-direct
inline constexpr std::size_t transmit_depth = 4096;
inline constexpr std::size_t receive_depth = 8192;
inline constexpr std::size_t inject_direct = 32;  // the device's inline data
inline constexpr std::size_t inject_rdm = 4096;
inline constexpr std::size_t address_size = 32;
inline constexpr std::size_t queue_default = receive_depth + transmit_depth;  // entries of a completion queue
inline constexpr std::size_t regions_per_nic = 262144;
inline constexpr std::size_t endpoints_per_nic = 256;

}  // namespace simefa
