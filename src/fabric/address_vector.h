// Peer addresses that one rail can reach.
#pragma once

#include <rdma/fi_domain.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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
    /// Gives one insertion up; the last one of an address removes it. Where the provider cannot reuse
    /// handles, the same address gets its own again later.
    void remove(fi_addr_t handle) noexcept;

    /// All that are in it.
    [[nodiscard]] std::vector<std::string> addresses() const {
        std::vector<std::string> all;
        for (const auto& [address, known] : known_)
            all.push_back(address);
        return all;
    }
    [[nodiscard]] fid_av* get() const noexcept { return vector_.get(); }

  private:
    /// Providers differ in what a second insertion of an address gives; efa gives the same handle, which one
    /// removal then ends for both. So each address is inserted once, and counted here.
    struct Known {
        fi_addr_t handle = FI_ADDR_NOTAVAIL;
        std::size_t users = 0;
    };

    const Domain& domain_;
    std::map<std::string, Known, std::less<>> known_;
    std::map<fi_addr_t, std::map<std::string, Known, std::less<>>::iterator> by_handle_;
    Fid<fid_av> vector_;
};

}  // namespace railyard::fabric
