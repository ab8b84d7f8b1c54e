#include "fabric/domain.h"

#include <rdma/fi_cm.h>

#include <cstddef>
#include <utility>

#include "common/log.h"
#include "common/mutex.h"
#include "common/occasional.h"
#include "fabric/memory_region.h"

namespace railyard::fabric {

namespace {

/// efa keeps all domains of a process in a list that nothing guards, and rails may be closed by threads of
/// their own.
Mutex& domains_mutex() noexcept {
    static auto* const mutex = new Mutex;  // outlives static engines
    return *mutex;
}

}  // namespace

Domain::Domain(std::shared_ptr<const Device> device, std::string rail)
    : device_(std::move(device)), rail_(std::move(rail)) {
    fid_fabric* fabric = nullptr;
    check(fi_fabric(device_->info->fabric_attr, &fabric, nullptr), "fi_fabric", rail_);
    fabric_ = Fid<fid_fabric>(fabric);

    fi_eq_attr attr{};
    attr.wait_obj = device_->caps.connected ? FI_WAIT_FD : FI_WAIT_UNSPEC;
    fid_eq* event_queue = nullptr;
    check(fi_eq_open(fabric_.get(), &attr, &event_queue, nullptr), "fi_eq_open", rail_);
    event_queue_ = Fid<fid_eq>(event_queue);

    fid_domain* domain = nullptr;
    const MutexLock lock(domains_mutex());
    check(fi_domain(fabric_.get(), device_->info.get(), &domain, nullptr), "fi_domain", rail_);
    domain_ = Fid<fid_domain>(domain);
}

Domain::~Domain() {
    {
        const MutexLock lock(kept_mutex_);
        while (registered_)
            registered_ = std::exchange(registered_->next_kept, nullptr);
    }
    const MutexLock lock(domains_mutex());
    domain_.reset();
}

void Domain::keep_registered(std::shared_ptr<MemoryRegion> region) const noexcept {
    const MutexLock lock(kept_mutex_);
    if (std::exchange(region->kept, true)) return;
    region->next_kept = std::exchange(registered_, nullptr);
    registered_ = std::move(region);
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
        } else if (!tell_of_connection(event, *reinterpret_cast<fi_eq_cm_entry*>(entry))) {
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
    if (ConnectionSink* const sink = sink_of(error.fid)) {
        sink->on_disconnected(error.fid, error.err);
        return true;
    }
    const std::uint64_t count = event_errors_.load(std::memory_order_relaxed) + 1;
    event_errors_.store(count, std::memory_order_relaxed);
    if (worth_a_line(count)) {
        RAILYARD_LOG(error, rail_.c_str(), "event queue error: %s (%d, provider %d), number %llu",
                     fi_strerror(error.err), error.err, error.prov_errno,
                     static_cast<unsigned long long>(count));
    }
    return true;
}

ConnectionSink* Domain::sink_of(fid* connection) const noexcept {
    const auto found = sinks_.find(connection);
    return found == sinks_.end() ? nullptr : found->second;
}

/// False: it is no event of a connection. What it names may be closed already.
bool Domain::tell_of_connection(std::uint32_t event, fi_eq_cm_entry& entry) noexcept {
    if (event != FI_CONNREQ && event != FI_CONNECTED && event != FI_SHUTDOWN) return false;
    InfoPtr request(event == FI_CONNREQ ? entry.info : nullptr);
    ConnectionSink* const sink = sink_of(entry.fid);
    if (!sink) return true;
    if (event == FI_CONNREQ) {
        sink->on_request(entry.fid, std::move(request));
    } else if (event == FI_CONNECTED) {
        sink->on_connected(entry.fid);
    } else {
        sink->on_disconnected(entry.fid, FI_ECONNRESET);
    }
    return true;
}

/// Others we do not ask for, and act on none.
void Domain::note_event(std::uint32_t event) noexcept {
    if (!worth_a_line(++events_)) return;
    RAILYARD_LOG(info, rail_.c_str(), "event %u, number %llu", event,
                 static_cast<unsigned long long>(events_));
}

}  // namespace railyard::fabric
