#include "stream/stream_transfers.h"

#include <string>
#include <vector>

#include "engine/transfer.h"
#include "manager/gpus.h"

namespace railyard {
namespace {

bool one_of(const std::string& value, const char* first, const char* second) {
    return value == first || value == second;
}

/// Of the memory here that the transfer touches: ours, or for transfers within the process the other side's.
std::vector<std::uint64_t> gpus_of(const Transfer& transfer) {
    std::vector<std::uint64_t> ordinals;
    const auto add = [&](const Registration& region) {
        if (region.gpu) ordinals.push_back(region.device_id);
    };
    for (const auto& region : transfer.locals)
        add(*region);
    if (!ordinals.empty()) return ordinals;
    for (const auto& region : transfer.remotes) {
        if (region->self) add(*region->self);
    }
    return ordinals;
}

}  // namespace

StreamTransfers::StreamTransfers(Engine& engine)
    : engine_(engine),
      read_waits_(one_of(engine.params().stream_wait, "read", "both")),
      write_waits_(one_of(engine.params().stream_wait, "write", "both")),
      lanes_(engine.has_gpus() ? std::make_shared<Lanes>(engine.gpus().driver()) : nullptr),
      watch_(lanes_ ? std::make_unique<StreamWatch>(lanes_) : nullptr) {
    if (lanes_) engine_.set_chore(this);
}

StreamTransfers::~StreamTransfers() = default;

void StreamTransfers::attach(Transfer& transfer, std::string_view custom_param) {
    const StreamPlace place = find_stream(engine_.gpus(), custom_param, gpus_of(transfer));
    watch_->start();
    const RoleGuard control(lanes_->control);
    const std::shared_ptr<StreamLane> lane = lanes_->of(place);
    const bool waits = transfer.kind == Work::Kind::read ? read_waits_ : write_waits_;
    engine_.control_start(transfer, *new HeldTransfer(lane, transfer, waits));
    lanes_->reap();
}

bool StreamTransfers::run() noexcept {
    if (!lanes_->armed().any()) return false;
    StartList list;
    lanes_->collect(list);
    while (list.first) {
        HeldTransfer& held = *list.first;
        list.first = held.next_start();  // the round may be over, and the transfer gone, when start() returns
        engine_.start(held.transfer());
    }
    if (!watch_->runs()) watch_->look_now_and_then();
    return true;
}

/// Opened first: a GPU that waits for us drains, and calls of the driver that wait for the GPU come back,
/// those of chores among them.
void StreamTransfers::close() noexcept {
    if (!lanes_) return;
    lanes_->open();
    engine_.set_chore(nullptr);
    watch_->close();
}

}  // namespace railyard
