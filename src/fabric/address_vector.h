// Peer addresses that one rail can reach.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <memory>
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
    [[nodiscard]] std::vector<std::string> addresses() const;
    [[nodiscard]] fid_av* get() const noexcept { return vector_.get(); }

  private:
    /// Providers differ in what a second insertion of an address gives; efa gives the same handle, which one
    /// removal then ends for both. So each address is inserted once, and counted here. The address follows in
    /// the same block: thousands of peers have tens each.
    struct Known {
        fi_addr_t handle;
        std::uint32_t users;
        std::uint32_t length;
        [[nodiscard]] std::string_view address() const noexcept {
            return {reinterpret_cast<const char*>(this + 1), length};
        }
    };
    struct Release {
        void operator()(Known* known) const noexcept { ::operator delete(known); }
    };
    using KnownPtr = std::unique_ptr<Known, Release>;
    static KnownPtr make_known(std::string_view address);

    const Domain& domain_;
    std::vector<KnownPtr> by_address_;
    std::vector<Known*> by_handle_;
    Fid<fid_av> vector_;
};

}  // namespace railyard::fabric
