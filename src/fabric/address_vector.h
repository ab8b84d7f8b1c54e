// Peer addresses that one rail can reach.
#pragma once

#include <rdma/fi_domain.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "fabric/domain.h"
#include "fabric/fid.h"

namespace railyard::fabric {

class AddressVector {
  public:
    explicit AddressVector(const Domain& domain);

    /// Returns the handle for a raw address as another endpoint's name() gives it. Does not wait for the
    /// peer. Role holder only. Throws Error{mismatch} for bytes of the wrong length, Error{remote_disconnect}
    /// when refused.
    [[nodiscard]] fi_addr_t insert(std::string_view address);
    /// Gives the handle up. Where the provider cannot reuse it, the same address gets it again later.
    void remove(fi_addr_t handle) noexcept;

    [[nodiscard]] fid_av* get() const noexcept { return vector_.get(); }

  private:
    const Domain& domain_;
    std::map<std::string, fi_addr_t, std::less<>> kept_;  // of providers that keep addresses
    Fid<fid_av> vector_;
};

}  // namespace railyard::fabric
