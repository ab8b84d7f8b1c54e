#include "fabric/domain.h"

#include "common/log.h"

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
    for (int i = 0; i < 8; ++i) {
        std::uint32_t event = 0;
        fi_eq_entry entry{};
        ssize_t rc = fi_eq_read(event_queue_.get(), &event, &entry, sizeof(entry), 0);
        if (rc == -FI_EAVAIL) {
            fi_eq_err_entry error{};
            rc = fi_eq_readerr(event_queue_.get(), &error, 0);
            if (rc < 0) break;
            RAILYARD_LOG(error, rail_.c_str(), "event queue error: %s (%d, provider %d)",
                         fi_strerror(error.err), error.err, error.prov_errno);
        } else if (rc < 0) {
            break;
        } else {
            RAILYARD_LOG(info, rail_.c_str(), "event %u", event);
        }
        any = true;
    }
    return any;
}

}  // namespace railyard::fabric
