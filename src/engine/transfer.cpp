#include "engine/transfer.h"

#include <algorithm>

namespace railyard {

void Transfer::finish_round(Work& work) noexcept {
    auto& transfer = static_cast<Transfer&>(work);
    if (transfer.start_control) transfer.start_control->data_ended(transfer, transfer.status());
    if (transfer.status() != Status::ok || !transfer.has_notification) {
        transfer.part_done(transfer.status());
        return;
    }
    if (!transfer.peer) {
        Status status = Status::ok;
        try {
            transfer.own_inbox->put(*transfer.own_agent, transfer.notification.message);
        } catch (...) {
            status = Status::backend;
        }
        transfer.part_done(status);
        return;
    }
    transfer.notification.start(*transfer.own_agent, transfer.own_nonce, transfer.notification_id,
                                transfer.control_address);
    transfer.control_rail->send(transfer.notification);
}

void Transfer::on_notified(OutMessage& message, Status status) noexcept {
    // The message is a member of its transfer.
    auto& notification = static_cast<OutNotification&>(message);
    notification.owner->part_done(status);
}

bool Transfer::uses(const Registration& region) const noexcept {
    const auto same_local = [&](const auto& local) { return local.get() == &region; };
    const auto same_remote = [&](const auto& remote) { return remote->self.get() == &region; };
    return std::any_of(locals.begin(), locals.end(), same_local) ||
           std::any_of(remotes.begin(), remotes.end(), same_remote);
}

bool Transfer::revoked() const noexcept {
    const auto gone = [](const Registration& region) {
        return region.revoked.load(std::memory_order_acquire);
    };
    return std::any_of(locals.begin(), locals.end(), [&](const auto& local) { return gone(*local); }) ||
           std::any_of(remotes.begin(), remotes.end(),
                       [&](const auto& remote) { return remote->self && gone(*remote->self); });
}

}  // namespace railyard
