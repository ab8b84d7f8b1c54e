// The descriptors of a transfer, looked at before anything is done with them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/pinned.h"
#include "engine/transfer.h"
#include "manager/stripe.h"

namespace railyard {

/// What the transfer, whose kind and peer are known, moves between these descriptors of ours and those of
/// `agent`; its regions are pinned and in it. Throws Error{invalid_param} that names the descriptor which is
/// refused, Error{remote_disconnect} for memory of an earlier instance.
[[nodiscard]] std::vector<Piece> checked_pieces(Transfer& transfer, std::span<const LocalDescriptor> local,
                                                std::span<const RemoteDescriptor> remote,
                                                const std::string& agent, Pinned& pinned);

}  // namespace railyard
