#include "fabric/address_vector.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/log.h"
#include "common/shortage.h"

namespace railyard::fabric {
namespace {

std::uint32_t hash_of(std::string_view address) noexcept {
    return static_cast<std::uint32_t>(std::hash<std::string_view>{}(address));
}

}  // namespace

AddressVector::AddressVector(const Domain& domain) : domain_(domain) {
    if (!domain.caps().connected) vector_ = open();
}

Fid<fid_av> AddressVector::open() const {
    fi_av_attr attr{};
    attr.type = domain_.info().domain_attr->av_type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
    fid_av* vector = nullptr;
    check(fi_av_open(domain_.get(), &attr, &vector, nullptr), "fi_av_open", domain_.rail());
    return Fid<fid_av>(vector);
}

AddressVector::Another AddressVector::another() const {
    Another made{open(), {}};
    fi_addr_t end = numbers_.size();
    for (const Known& known : known_)
        end = std::max(end, known.handle + 1);
    made.numbers.assign(end, FI_ADDR_NOTAVAIL);
    AddressRoom room;
    for (const Known& known : known_)
        made.numbers[known.handle] = insert_into(made.vector.get(), address_of(known.handle, room));
    return made;
}

Fid<fid_av> AddressVector::use(Another another) noexcept {
    numbers_ = std::move(another.numbers);
    std::swap(vector_, another.vector);
    return std::move(another.vector);
}

std::string AddressVector::text_of(fi_addr_t handle) const {
    const bool known =
        std::any_of(known_.begin(), known_.end(), [=](const Known& entry) { return entry.handle == handle; });
    if (!known || !vector_) return {};
    AddressRoom room;
    const std::string_view address = address_of(handle, room);
    std::array<char, longest_address> text{};
    std::size_t length = text.size();
    if (address.empty() || !fi_av_straddr(vector_.get(), address.data(), text.data(), &length)) return {};
    text.back() = '\0';
    return text.data();
}

fi_addr_t AddressVector::insert(std::string_view address) {
    const fi_info& info = domain_.info();
    const bool text = info.addr_format == FI_ADDR_STR;
    const bool whole = text ? !address.empty() && address.back() == '\0' && address.size() <= longest_address
                            : address.size() == info.src_addrlen;
    if (!whole) {
        throw Error(Status::mismatch, "peer address of " + std::to_string(address.size()) +
                                          " bytes does not fit " + domain_.rail() + ", which takes " +
                                          std::to_string(info.src_addrlen) +
                                          ": the peer's provider or address family differs");
    }
    AddressRoom room;
    const std::uint32_t hash = hash_of(address);
    auto place = first_of(hash);
    for (; place != known_.end() && place->hash == hash; ++place) {
        if (address_of(place->handle, room) != address) continue;
        ++place->users;
        return place->handle;
    }
    // What may throw comes first: what has been inserted is to be known.
    place = known_.insert(place, {hash, 1, FI_ADDR_NOTAVAIL});
    try {
        return place->handle = insert_new(address);
    } catch (...) {
        known_.erase(place);
        throw;
    }
}

fi_addr_t AddressVector::insert_new(std::string_view address) {
    if (!vector_) {
        translated_.emplace(next_handle_, address);
        return next_handle_++;
    }
    fi_addr_t number = insert_into(vector_.get(), address);
    fi_addr_t handle = FI_ADDR_NOTAVAIL;
    try {
        handle = name(number);
        AddressRoom room;
        if (address_of(handle, room) != address) translated_.emplace(handle, address);
    } catch (...) {
        if (!numbers_.empty() && handle != FI_ADDR_NOTAVAIL) numbers_[handle] = FI_ADDR_NOTAVAIL;
        if (!domain_.caps().keeps_addresses) fi_av_remove(vector_.get(), &number, 1, 0);
        throw;
    }
    return handle;
}

fi_addr_t AddressVector::insert_into(fid_av* vector, std::string_view address) const {
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    const int count = fi_av_insert(vector, address.data(), 1, &number, 0, nullptr);
    if (count != 1 || number == FI_ADDR_NOTAVAIL) refuse();
    return number;
}

/// The provider does not say why.
void AddressVector::refuse() const {
    const std::string text = "fi_av_insert refused the peer's address on " + domain_.rail();
    const std::size_t most = domain_.caps().most_peers;
    if (known_.size() > most) {
        throw Error(Status::backend, text + ": it takes " + std::to_string(most) +
                                         " peers in the life of a process, also of those that have gone: "
                                         "restart this process, or use provider=tcp");
    }
    const std::string short_of = shortage();
    if (!short_of.empty()) throw Error(Status::backend, text + short_of);
    throw Error(Status::remote_disconnect, text + ": the peer may have ended");
}

fi_addr_t AddressVector::name(fi_addr_t number) {
    if (numbers_.empty()) return number;
    const auto free = std::find(numbers_.begin(), numbers_.end(), FI_ADDR_NOTAVAIL);
    const auto handle = static_cast<fi_addr_t>(free - numbers_.begin());
    if (free == numbers_.end()) {
        numbers_.push_back(number);
    } else {
        *free = number;
    }
    return handle;
}

bool AddressVector::remove(fi_addr_t handle) noexcept {
    if (handle == FI_ADDR_NOTAVAIL) return false;
    AddressRoom room;
    const std::uint32_t hash = hash_of(address_of(handle, room));
    auto found = first_of(hash);
    while (found != known_.end() && found->hash == hash && found->handle != handle)
        ++found;
    if (found == known_.end() || found->hash != hash || --found->users > 0 || domain_.caps().keeps_addresses)
        return false;
    known_.erase(found);
    translated_.erase(handle);
    fi_addr_t number = at_provider(handle);
    const int rc = vector_ ? fi_av_remove(vector_.get(), &number, 1, 0) : 0;
    if (!numbers_.empty()) numbers_[handle] = FI_ADDR_NOTAVAIL;
    if (rc != 0) RAILYARD_LOG(debug, domain_.rail().c_str(), "fi_av_remove: %s", fi_strerror(-rc));
    return true;
}

std::string_view AddressVector::destination_of(fi_addr_t handle) const noexcept {
    const auto found = translated_.find(handle);
    return found == translated_.end() ? std::string_view() : found->second;
}

std::vector<std::string> AddressVector::addresses() const {
    std::vector<std::string> all;
    AddressRoom room;
    for (const Known& known : known_)
        all.emplace_back(address_of(known.handle, room));
    return all;
}

AddressVector::Entries::iterator AddressVector::first_of(std::uint32_t hash) noexcept {
    return std::lower_bound(known_.begin(), known_.end(), hash,
                            [](const Known& known, std::uint32_t wanted) { return known.hash < wanted; });
}

std::string_view AddressVector::address_of(fi_addr_t handle, AddressRoom& room) const noexcept {
    const auto translated = translated_.find(handle);
    if (translated != translated_.end()) return translated->second;
    if (!vector_) return {};
    const fi_addr_t number = at_provider(handle);
    if (number == FI_ADDR_NOTAVAIL) return {};  // tcp's follows it
    std::size_t length = room.size();
    if (fi_av_lookup(vector_.get(), number, room.data(), &length) != 0) return {};
    return {room.data(), std::min(length, room.size())};
}

}  // namespace railyard::fabric
