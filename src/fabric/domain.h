// Fabric, event queue and domain of one rail.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "fabric/fid.h"
#include "fabric/info.h"

namespace railyard::fabric {

/// Hears of what becomes of connections, while it is registered with Domain::watch.
class ConnectionSink {
  public:
    /// Called by Domain::drain_events. `connection` may be closed here.
    virtual void on_connected(fid* connection) noexcept = 0;
    /// It is over, or was refused. `error` is a positive libfabric errno.
    virtual void on_disconnected(fid* connection, int error) noexcept = 0;
    /// Somebody wants to connect to the passive endpoint `listener`.
    virtual void on_request(fid* listener, InfoPtr request) noexcept = 0;

  protected:
    ~ConnectionSink() = default;
};

class MemoryRegion;

class Domain {
  public:
    /// Throws Error{backend}.
    Domain(std::shared_ptr<const Device> device, std::string rail);
    ~Domain();
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;

    [[nodiscard]] fid_domain* get() const noexcept { return domain_.get(); }
    [[nodiscard]] fid_fabric* fabric() const noexcept { return fabric_.get(); }
    [[nodiscard]] fid_eq* event_queue() const noexcept { return event_queue_.get(); }
    [[nodiscard]] const fi_info& info() const noexcept { return *device_->info; }
    [[nodiscard]] const ProviderCaps& caps() const noexcept { return device_->caps; }
    [[nodiscard]] const std::string& rail() const noexcept { return rail_; }

    /// Stays until the domain is closed, and what was opened in it. Any thread. Throws std::bad_alloc.
    void keep(std::shared_ptr<const void> memory) const {
        const MutexLock lock(kept_mutex_);
        kept_.push_back(std::move(memory));
    }
    /// Stays until all else that was opened in the domain is closed. Any thread.
    void keep_registered(std::shared_ptr<MemoryRegion> region) const noexcept;

    /// From now on, `sink` hears of what happens to `connection`; until unwatch. Role holder only. Throws
    /// std::bad_alloc.
    void watch(fid* connection, ConnectionSink& sink) { sinks_.insert_or_assign(connection, &sink); }
    void unwatch(fid* connection) noexcept { sinks_.erase(connection); }

    /// Takes in at most `events_per_drain` of what the provider reported asynchronously, tells sinks of what
    /// concerns their connections and logs the rest; true if there was something. Role holder only.
    bool drain_events() noexcept;
    static constexpr int events_per_drain = 8;
    /// Errors that the event queue has reported: what breaks there is the device, no single operation. Any
    /// thread.
    [[nodiscard]] std::uint64_t event_errors() const noexcept {
        return event_errors_.load(std::memory_order_relaxed);
    }

  private:
    bool read_event_error() noexcept;
    bool tell_of_connection(std::uint32_t event, fi_eq_cm_entry& entry) noexcept;
    [[nodiscard]] ConnectionSink* sink_of(fid* connection) const noexcept;
    void note_event(std::uint32_t event) noexcept;

    mutable Mutex kept_mutex_;
    mutable std::vector<std::shared_ptr<const void>> kept_ ABSL_GUARDED_BY(kept_mutex_);
    std::atomic<std::uint64_t> event_errors_{0};  // written by the role holder
    std::uint64_t events_ = 0;                    // without errors; role holder only
    std::uint64_t unreadable_events_ = 0;
    std::unordered_map<fid*, ConnectionSink*> sinks_;  // role holder only
    const std::shared_ptr<const Device> device_;
    std::string rail_;
    Fid<fid_fabric> fabric_;
    Fid<fid_eq> event_queue_;  // efa aborts the process on an internal error when none is bound
    Fid<fid_domain> domain_;
    mutable std::shared_ptr<MemoryRegion> registered_
        ABSL_GUARDED_BY(kept_mutex_);  ///< MemoryRegion::next_kept
};

}  // namespace railyard::fabric
