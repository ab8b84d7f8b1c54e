// fi_fabric of the provider.
#pragma once

#include <rdma/fabric.h>

#include <atomic>

#include "provider/info.h"

namespace simefa {

class Fabric : public fid_fabric {
  public:
    static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
    static Fabric* from(::fid* handle) noexcept;

    [[nodiscard]] FabricKind kind() const noexcept { return kind_; }
    void add_domain() noexcept { ++domains_; }
    void remove_domain() noexcept { --domains_; }

  private:
    Fabric(FabricKind kind, std::uint32_t version, void* context_of_user) noexcept;
    static int close_fid(::fid* handle);
    static int trywait(fid_fabric* fabric, ::fid** handles, int count);
    static fi_ops fid_ops_;
    static fi_ops_fabric ops_;

    const FabricKind kind_;
    std::atomic<unsigned> domains_{0};
};

}  // namespace simefa
