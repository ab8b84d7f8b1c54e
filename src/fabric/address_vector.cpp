#include "fabric/address_vector.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/log.h"

namespace railyard::fabric {
namespace {

constexpr auto address_of = [](const auto& known) { return known->address(); };
constexpr auto handle_of = [](const auto& known) { return known->handle; };

/// Where the key is in a sorted vector, or belongs.
template <typename Sorted, typename Key, typename KeyOf>
auto place_of(Sorted& sorted, const Key& key, KeyOf key_of) noexcept {
    return std::lower_bound(sorted.begin(), sorted.end(), key,
                            [&](const auto& known, const Key& wanted) { return key_of(known) < wanted; });
}

/// So that the next insertion does not throw.
template <typename Vector>
void make_room(Vector& vector) {
    if (vector.size() == vector.capacity()) vector.reserve(vector.size() + vector.size() / 2 + 1);
}

}  // namespace

AddressVector::KnownPtr AddressVector::make_known(std::string_view address) {
    void* const block = ::operator new(sizeof(Known) + address.size());
    KnownPtr known(new (block) Known{FI_ADDR_NOTAVAIL, 1, static_cast<std::uint32_t>(address.size())});
    std::memcpy(known.get() + 1, address.data(), address.size());
    return known;
}

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
    const auto place = place_of(by_address_, address, address_of);
    if (place != by_address_.end() && (*place)->address() == address) {
        ++(*place)->users;
        return (*place)->handle;
    }
    // What may throw comes first: what has been inserted is to be known.
    KnownPtr known = make_known(address);
    const auto offset = place - by_address_.begin();
    make_room(by_address_);
    make_room(by_handle_);
    const int count = fi_av_insert(vector_.get(), address.data(), 1, &known->handle, 0, nullptr);
    if (count != 1 || known->handle == FI_ADDR_NOTAVAIL) {
        throw Error(Status::remote_disconnect, "fi_av_insert refused the peer's address on " +
                                                   domain_.rail() + ": the peer may have ended");
    }
    const fi_addr_t handle = known->handle;
    by_handle_.insert(place_of(by_handle_, handle, handle_of), known.get());
    by_address_.insert(by_address_.begin() + offset, std::move(known));
    return handle;
}

void AddressVector::remove(fi_addr_t handle) noexcept {
    const auto found = place_of(by_handle_, handle, handle_of);
    if (found == by_handle_.end() || (*found)->handle != handle) return;
    if (--(*found)->users > 0 || domain_.caps().keeps_addresses) return;
    const auto place = place_of(by_address_, (*found)->address(), address_of);
    by_handle_.erase(found);
    by_address_.erase(place);
    const int rc = fi_av_remove(vector_.get(), &handle, 1, 0);
    if (rc != 0) RAILYARD_LOG(debug, domain_.rail().c_str(), "fi_av_remove: %s", fi_strerror(-rc));
}

std::vector<std::string> AddressVector::addresses() const {
    std::vector<std::string> all;
    for (const KnownPtr& known : by_address_)
        all.emplace_back(known->address());
    return all;
}

}  // namespace railyard::fabric
