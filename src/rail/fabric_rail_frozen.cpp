// How a rail goes on where its one endpoint can neither be replaced nor closed, and would wait for ever.
#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "rail/fabric_rail.h"

namespace railyard {

/// Senders that can be replaced end what is under way by that. Over shm all answers are read in the order of
/// the operations, so one that never comes ends everything on that endpoint. Another one takes over. On the
/// one of cxi nobody waits for others, and the device goes on with it all: a second time would overlap it.
void FabricRail::do_abandon_peer(PeerAddress peer) noexcept {
    if (!fabric_->domain.caps().shares_endpoints) return;
    drain_all();  // what the peer had still done
    const auto waits = [&](const Operation& operation) {
        return operation.posted && operation.submission->route->destination == peer;
    };
    const Operations& operations = *fabric_->operations.back();
    try {
        if (std::any_of(operations.begin(), operations.end(), waits)) freeze();
    } catch (const std::exception& error) {
        put_renewal_off(error);  // where there is no endpoint left: else it is abandoned once more
    }
    publish_load();
}

/// Where nothing ends any more on the one endpoint that there is, and it can neither be replaced nor closed.
void FabricRail::stop_sending() noexcept {
    if (!sending_ || !fabric_->queue.broken()) return;
    try {
        freeze();
    } catch (const std::exception& error) {
        put_renewal_off(error);
    }
}

/// Where one was given up, and there was no other for want of descriptors or memory.
void FabricRail::reopen() noexcept {
    try {
        start_sender();
    } catch (const std::exception& error) {
        put_renewal_off(error);
    }
}

/// What is under way is given back, and its endpoint touched no more; another one takes over, unless the
/// queue is broken. Throws where there is no memory for it, and has done nothing then, or no endpoint.
void FabricRail::freeze() {
    auto operations = std::make_unique<Operations>(depth_);
    fabric_->frozen.reserve(fabric_->frozen.size() + 1);
    fabric_->frozen_operations.reserve(fabric_->frozen_operations.size() + 2);
    fabric_->frozen_operations.push_back(control_->begin_renewal());
    sending_ = nullptr;
    take_back();
    fabric_->frozen_operations.push_back(std::move(fabric_->operations.back()));
    fabric_->operations.pop_back();
    if (fabric_->sender) fabric_->frozen.push_back(std::move(fabric_->sender));
    open_sender(std::move(operations));
}

}  // namespace railyard
