// Address vector: table of peers, and the shared list of whom our endpoints know.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "provider/peer.h"
#include "shared/mapped_file.h"

namespace simefa {

class Domain;

/// Guarded by the domain's lock. Operations hold their peer, so a removed entry's slot may be given away at
/// once.
class AddressVector : public fid_av {
  public:
    static int open(fid_domain* domain, fi_av_attr* attr, fid_av** vector, void* context);
    static AddressVector* from(::fid* handle) noexcept;

    /// Null: no such entry.
    [[nodiscard]] Peer* find(fi_addr_t position) const noexcept {
        return position < peers_.size() ? peers_[position] : nullptr;
    }
    /// FI_ADDR_NOTAVAIL: not in the vector.
    [[nodiscard]] fi_addr_t position_of(std::uint64_t id) const noexcept;
    /// Entry for an address that a protocol message brought; kept aside from the application's entries.
    Peer& implicit(const Address& address);

    [[nodiscard]] const std::string& file() const noexcept { return file_; }
    /// False: an endpoint has had it before, and the device's vectors take no other, ever (libfabric up
    /// to 2.2).
    bool bind() noexcept {
        if (std::exchange(bound_, true)) return false;
        ++users_;
        return true;
    }
    void remove_user() noexcept { --users_; }

  private:
    AddressVector(Domain& domain, void* context_of_user);
    ~AddressVector();
    fi_addr_t insert_one(const Address& address);
    bool remove_one(fi_addr_t position) noexcept;

    static int insert(fid_av* vector, const void* addresses, std::size_t count, fi_addr_t* positions,
                      std::uint64_t flags, void* context);
    static int remove(fid_av* vector, fi_addr_t* positions, std::size_t count, std::uint64_t flags);
    static int lookup(fid_av* vector, fi_addr_t position, void* address, std::size_t* length);
    static const char* straddr(fid_av* vector, const void* address, char* buffer, std::size_t* length);
    static int close_fid(::fid* handle);
    static fi_ops fid_ops_;
    static fi_ops_av ops_;

    Domain& domain_;
    std::string file_;
    std::shared_ptr<MappedFile> record_;
    std::vector<Peer*> peers_;
    std::vector<fi_addr_t> free_;
    std::unordered_map<std::uint64_t, fi_addr_t> positions_;
    std::unordered_map<std::uint64_t, Peer*> implicit_;
    std::size_t users_ = 0;
    bool bound_ = false;
};

}  // namespace simefa
