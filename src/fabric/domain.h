// Fabric, event queue and domain of one rail.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

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

    /// Logs what the provider reported asynchronously; true if there was something. Role holder only.
    bool drain_events() noexcept;

  private:
    const std::shared_ptr<const Device> device_;
    std::string rail_;
    Fid<fid_fabric> fabric_;
    Fid<fid_eq> event_queue_;  // efa aborts the process on an internal error when none is bound
    Fid<fid_domain> domain_;
};

}  // namespace railyard::fabric
