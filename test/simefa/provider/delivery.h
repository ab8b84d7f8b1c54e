// What happens when the bytes of an operation are due.
#pragma once

#include <cstdint>

#include "provider/nic.h"
#include "provider/operation.h"
#include "provider/transmit.h"

namespace simefa {

/// Status with which the operation ends, or no_answer_yet: try again after Operation::retry_delay.
inline constexpr int no_answer_yet = -1;

/// One attempt to move the operation's bytes and to tell the target where it wants to be told. `now` in ns.
int deliver(Operation& operation, const Sender& sender, Nic& nic, std::uint64_t now) noexcept;

}  // namespace simefa
