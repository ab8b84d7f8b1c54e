// Peer addresses that one rail can reach.
#pragma once

#include <rdma/fi_domain.h>

#include <array>
#include <cstdint>
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
    /// peer. Role holder only. Throws Error{mismatch} for bytes of the wrong length, Error{backend} where the
    /// provider takes no more peers or the process is short of something, Error{remote_disconnect} when
    /// refused else.
    [[nodiscard]] fi_addr_t insert(std::string_view address);
    /// Gives one insertion up; the last one of an address removes it. Where the provider cannot reuse
    /// handles, the same address gets its own again later.
    /// True when it is not in it any more; false, too, of FI_ADDR_NOTAVAIL, and of what was removed before.
    bool remove(fi_addr_t handle) noexcept;

    /// For another endpoint, where each needs one of its own (ProviderCaps::own_vectors): all that are in it
    /// are in a new one, by the same handles. Returns the one before, which goes once its endpoint has been
    /// closed. Role holder only. Throws Error, and std::bad_alloc; then nothing has changed.
    Fid<fid_av> renew() { return use(another()); }
    /// The same in two steps, the second of which cannot fail: nothing is inserted or removed in between.
    struct Another {
        Fid<fid_av> vector;
        std::vector<fi_addr_t> numbers;
    };
    [[nodiscard]] Another another() const;
    Fid<fid_av> use(Another another) noexcept;
    /// An address as people read it; empty for one that is not in it.
    [[nodiscard]] std::string text_of(fi_addr_t handle) const;
    /// The provider's handle, as its calls want it.
    [[nodiscard]] fi_addr_t at_provider(fi_addr_t handle) const noexcept {
        return numbers_.empty() ? handle : numbers_[handle];
    }

    /// All that are in it.
    [[nodiscard]] std::vector<std::string> addresses() const;
    /// Where connections are made, the raw address behind a handle; empty for one that is not in it (any
    /// more).
    [[nodiscard]] std::string_view destination_of(fi_addr_t handle) const noexcept;
    /// nullptr where connections are made.
    [[nodiscard]] fid_av* get() const noexcept { return vector_.get(); }

  private:
    static constexpr std::size_t longest_address = 256;  ///< longer than any provider's
    using AddressRoom = std::array<char, longest_address>;

    /// Providers differ in what a second insertion of an address gives; efa gives the same handle, which one
    /// removal then ends for both. So each address is inserted once, and counted here. Thousands of peers
    /// have tens each, so the provider's copy of the bytes is the only one.
    struct Known {
        std::uint32_t hash;  ///< of the address
        std::uint32_t users;
        fi_addr_t handle;
    };
    using Entries = std::vector<Known>;
    Entries::iterator first_of(std::uint32_t hash) noexcept;
    /// The raw address as it was inserted; in `room`, where only the provider has it.
    [[nodiscard]] std::string_view address_of(fi_addr_t handle, AddressRoom& room) const noexcept;

    [[nodiscard]] Fid<fid_av> open() const;
    [[nodiscard]] fi_addr_t insert_new(std::string_view address);
    [[nodiscard]] fi_addr_t insert_into(fid_av* vector, std::string_view address) const;
    [[noreturn]] void refuse() const;
    /// A handle for what the provider calls `number`.
    [[nodiscard]] fi_addr_t name(fi_addr_t number);

    const Domain& domain_;
    Entries known_;  // by hash
    /// Those that the provider gives back in other words, or does not have: connections' are our own.
    std::map<fi_addr_t, std::string> translated_;
    fi_addr_t next_handle_ = 0;  // of these
    /// The provider's handles by ours, once there has been another vector; FI_ADDR_NOTAVAIL: free.
    std::vector<fi_addr_t> numbers_;
    Fid<fid_av> vector_;
};

}  // namespace railyard::fabric
