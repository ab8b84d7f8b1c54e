// Fabric, event queue and domain of one rail.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/fid.h"
#include "fabric/info.h"

namespace railyard::fabric {

class Domain {
  public:
    /// Throws Error{backend}.
    Domain(std::shared_ptr<const Device> device, std::string rail);

    [[nodiscard]] fid_domain* get() const noexcept { return domain_.get(); }
    [[nodiscard]] fid_fabric* fabric() const noexcept { return fabric_.get(); }
    [[nodiscard]] fid_eq* event_queue() const noexcept { return event_queue_.get(); }
    [[nodiscard]] const fi_info& info() const noexcept { return *device_->info; }
    [[nodiscard]] const ProviderCaps& caps() const noexcept { return device_->caps; }
    [[nodiscard]] const std::string& rail() const noexcept { return rail_; }

    /// Takes in at most `events_per_drain` of what the provider reported asynchronously, and logs it; true if
    /// there was something. Role holder only.
    bool drain_events() noexcept;
    static constexpr int events_per_drain = 8;
    /// Errors that the event queue has reported: what breaks there is the device, no single operation. Any
    /// thread.
    [[nodiscard]] std::uint64_t event_errors() const noexcept {
        return event_errors_.load(std::memory_order_relaxed);
    }

  private:
    bool read_event_error() noexcept;
    void note_event(std::uint32_t event) noexcept;

    std::atomic<std::uint64_t> event_errors_{0};  // written by the role holder
    std::uint64_t events_ = 0;                    // without errors; role holder only
    std::uint64_t unreadable_events_ = 0;
    const std::shared_ptr<const Device> device_;
    std::string rail_;
    Fid<fid_fabric> fabric_;
    Fid<fid_eq> event_queue_;  // efa aborts the process on an internal error when none is bound
    Fid<fid_domain> domain_;
};

}  // namespace railyard::fabric
