// When the bytes of an operation arrive.
#pragma once

#include <cstdint>

#include "provider/nic.h"
#include "provider/operation.h"

namespace simefa {

/// How far ahead of now a NIC's wire may be booked (ns). Short, so that operations of others, posted later,
/// need not wait for everything that was posted before; time lost by polling late is no bandwidth lost, as
/// bookings start when the operation was posted.
inline constexpr std::uint64_t booking_horizon = 100'000;

/// Books the wire time of `operation` on the sending NIC and the receiving one (a READ's sender is the peer)
/// and sets its `due`. Both clocks are shared by the whole cluster, so incast shows. False: booked out beyond
/// the horizon, ask again. The peer was reached, or there is no wire to book (`remote` null).
bool book(Nic& nic, NicSlot* remote, Operation& operation, std::uint64_t now) noexcept;

/// When book may succeed, after it refused; ns.
std::uint64_t bookable_at(const Nic& nic, const NicSlot* remote, const Operation& operation) noexcept;

}  // namespace simefa
