// fi_mr of the provider.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>

namespace simefa {

class Domain;

class MemoryRegion : public fid_mr {
  public:
    /// The domain's registration calls.
    static fi_ops_mr domain_ops;

  private:
    MemoryRegion(Domain& domain, std::uint32_t key, void* context_of_user) noexcept;
    static int reg(::fid* domain, const void* buffer, std::size_t length, std::uint64_t access,
                   std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr** region,
                   void* context);
    static int regv(::fid* domain, const iovec* ranges, std::size_t count, std::uint64_t access,
                    std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr** region,
                    void* context);
    static int leave_out(Domain& domain, void* context_of_user, fid_mr** region);
    static int regattr(::fid* domain, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region);
    static int close_fid(::fid* handle);
    static int control(::fid* handle, int command, void* argument);
    static fi_ops fid_ops_;

    Domain& domain_;
    void* mapping_ = nullptr;  ///< of a dma-buf
    std::size_t mapping_length_ = 0;
};

}  // namespace simefa
