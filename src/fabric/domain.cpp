#include "fabric/domain.h"

#include <rdma/fi_cm.h>

#include <cstddef>

#include "common/log.h"
#include "common/occasional.h"

namespace railyard::fabric {

Domain::Domain(std::shared_ptr<const Device> device, std::string rail)
    : device_(std::move(device)), rail_(std::move(rail)) {
    fid_fabric* fabric = nullptr;
    check(fi_fabric(device_->info->fabric_attr, &fabric, nullptr), "fi_fabric", rail_);
    fabric_ = Fid<fid_fabric>(fabric);

    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* event_queue = nullptr;
    check(fi_eq_open(fabric_.get(), &attr, &event_queue, nullptr), "fi_eq_open", rail_);
    event_queue_ = Fid<fid_eq>(event_queue);

    fid_domain* domain = nullptr;
    check(fi_domain(fabric_.get(), device_->info.get(), &domain, nullptr), "fi_domain", rail_);
    domain_ = Fid<fid_domain>(domain);
}

bool Domain::drain_events() noexcept {
    bool any = false;
    for (int i = 0; i < events_per_drain; ++i) {
        std::uint32_t event = 0;
        // Room for the longest that there is, connection events with their data: what does not fit would stay
        // at the head for ever.
        alignas(fi_eq_cm_entry) std::byte entry[512];
        const ssize_t rc = fi_eq_read(event_queue_.get(), &event, entry, sizeof(entry), 0);
        if (rc == -FI_EAGAIN || rc == -FI_EINTR) break;
        if (rc == -FI_EAVAIL) {
            if (!read_event_error()) break;
        } else if (rc < 0) {
            if (worth_a_line(++unreadable_events_)) {
                RAILYARD_LOG(error, rail_.c_str(), "fi_eq_read: %s (%zd), %llu such answers so far",
                             fi_strerror(static_cast<int>(-rc)), rc,
                             static_cast<unsigned long long>(unreadable_events_));
            }
            break;
        } else {
            note_event(event);
        }
        any = true;
    }
    return any;
}

/// False: there was none, though the queue had announced one.
bool Domain::read_event_error() noexcept {
    fi_eq_err_entry error{};  // err_data_size is an input: zero asks for no error data
    if (fi_eq_readerr(event_queue_.get(), &error, 0) <= 0) return false;
    const std::uint64_t count = event_errors_.load(std::memory_order_relaxed) + 1;
    event_errors_.store(count, std::memory_order_relaxed);
    if (worth_a_line(count)) {
        RAILYARD_LOG(error, rail_.c_str(), "event queue error: %s (%d, provider %d), number %llu",
                     fi_strerror(error.err), error.err, error.prov_errno,
                     static_cast<unsigned long long>(count));
    }
    return true;
}

/// We ask for no events, and act on none.
void Domain::note_event(std::uint32_t event) noexcept {
    if (!worth_a_line(++events_)) return;
    RAILYARD_LOG(info, rail_.c_str(), "event %u, number %llu", event,
                 static_cast<unsigned long long>(events_));
}

}  // namespace railyard::fabric
