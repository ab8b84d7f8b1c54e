#include "fabric/address_vector.h"

#include "common/log.h"

namespace railyard::fabric {

AddressVector::AddressVector(const Domain& domain) : domain_(domain) {
    fi_av_attr attr{};
    attr.type = domain.info().domain_attr->av_type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
    fid_av* vector = nullptr;
    check(fi_av_open(domain.get(), &attr, &vector, nullptr), "fi_av_open", domain.rail());
    vector_ = Fid<fid_av>(vector);
}

fi_addr_t AddressVector::insert(std::string_view address) {
    const fi_info& info = domain_.info();
    const bool text = info.addr_format == FI_ADDR_STR;
    const bool whole = text ? !address.empty() && address.back() == '\0' && address.size() <= 256
                            : address.size() == info.src_addrlen;
    if (!whole) {
        throw Error(Status::mismatch, "peer address of " + std::to_string(address.size()) +
                                          " bytes does not fit " + domain_.rail() + ", which takes " +
                                          std::to_string(info.src_addrlen) +
                                          ": the peer's provider or address family differs");
    }
    if (const auto found = known_.find(address); found != known_.end()) {
        ++found->second.users;
        return found->second.handle;
    }
    fi_addr_t handle = FI_ADDR_NOTAVAIL;
    const int count = fi_av_insert(vector_.get(), address.data(), 1, &handle, 0, nullptr);
    if (count != 1 || handle == FI_ADDR_NOTAVAIL) {
        throw Error(Status::remote_disconnect, "fi_av_insert refused the peer's address on " +
                                                   domain_.rail() + ": the peer may have ended");
    }
    try {
        const auto entry = known_.emplace(address, Known{handle, 1}).first;
        try {
            by_handle_[handle] = entry;
        } catch (...) {
            known_.erase(entry);
            throw;
        }
    } catch (...) {
        if (!domain_.caps().keeps_addresses) fi_av_remove(vector_.get(), &handle, 1, 0);
        throw;
    }
    return handle;
}

void AddressVector::remove(fi_addr_t handle) noexcept {
    const auto found = by_handle_.find(handle);
    if (found == by_handle_.end() || --found->second->second.users > 0 || domain_.caps().keeps_addresses)
        return;
    known_.erase(found->second);
    by_handle_.erase(found);
    const int rc = fi_av_remove(vector_.get(), &handle, 1, 0);
    if (rc != 0) RAILYARD_LOG(debug, domain_.rail().c_str(), "fi_av_remove: %s", fi_strerror(-rc));
}

}  // namespace railyard::fabric
