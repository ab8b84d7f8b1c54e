#include "provider/address_vector.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>

#include "provider/domain.h"
#include "provider/fids.h"
#include "provider/nic_fid.h"

namespace simefa {

AddressVector::AddressVector(Domain& domain, void* context_of_user) : fid_av{}, domain_(domain) {
    Cluster& cluster = domain.nic().cluster();
    file_ = cluster.fresh_name("vector");
    record_ = cluster.create(file_, sizeof(VectorRecord), [](MappedFile& file) {
        auto& record = file.as<VectorRecord>();
        record.owner.store(this_process());
        record.magic.store(layout_magic);
    });
    fid.fclass = FI_CLASS_AV;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
}

AddressVector::~AddressVector() {
    for (Peer* peer : peers_) {
        if (!peer) continue;
        domain_.nic().slot().uncount(Counter::addresses);
        peer->release();
    }
    for (const auto& [id, peer] : implicit_)
        peer->release();
    domain_.nic().cluster().remove(file_);
}

AddressVector* AddressVector::from(::fid* handle) noexcept {
    return object_of<AddressVector, fid_av>(handle);
}

int AddressVector::open(fid_domain* domain, fi_av_attr* attr, fid_av** vector, void* context) {
    if (attr->name) return -FI_ENOSYS;
    if (attr->flags & FI_EVENT) return -FI_ENOSYS;
    try {
        Domain& owner = *Domain::from(&domain->fid);
        *vector = new AddressVector(owner, context);
        owner.add_child();
        attr->type = FI_AV_TABLE;
        return 0;
    } catch (const std::exception&) {
        return -FI_ENOMEM;
    }
}

fi_addr_t AddressVector::position_of(std::uint64_t id) const noexcept {
    const auto found = positions_.find(id);
    return found == positions_.end() ? FI_ADDR_NOTAVAIL : found->second;
}

Peer& AddressVector::implicit(const Address& address) {
    if (Peer* peer = find(position_of(address.id()))) return *peer;
    Peer*& peer = implicit_[address.id()];
    if (!peer) peer = new Peer(domain_.nic(), address, FI_ADDR_NOTAVAIL);
    return *peer;
}

fi_addr_t AddressVector::insert_one(const Address& address) {
    const std::uint64_t id = address.id();
    // The device knows one handle per address: a second insertion gives the first one's.
    if (const auto known = positions_.find(id); known != positions_.end()) return known->second;
    auto& record = record_->as<VectorRecord>();
    fi_addr_t position = peers_.size();
    if (!free_.empty()) {
        position = free_.back();
        free_.pop_back();
    } else if (peers_.size() < vector_slots) {
        peers_.push_back(nullptr);
    } else {
        return FI_ADDR_NOTAVAIL;
    }
    peers_[position] = new Peer(domain_.nic(), address, position);
    positions_.emplace(id, position);
    record.ids[position].store(id);
    record.size.store(static_cast<std::uint32_t>(peers_.size()));
    record.generation.fetch_add(1);
    domain_.nic().slot().count(Counter::addresses);
    return position;
}

bool AddressVector::remove_one(fi_addr_t position) noexcept {
    Peer* peer = find(position);
    if (!peer) return false;
    auto& record = record_->as<VectorRecord>();
    record.ids[position].store(0);
    record.generation.fetch_add(1);
    positions_.erase(peer->id());
    peers_[position] = nullptr;
    free_.push_back(position);
    domain_.nic().slot().uncount(Counter::addresses);
    peer->release();
    return true;
}

int AddressVector::insert(fid_av* vector, const void* addresses, std::size_t count, fi_addr_t* positions,
                          std::uint64_t flags, void* context) {
    auto& self = *static_cast<AddressVector*>(vector);
    int inserted = 0;
    try {
        const std::lock_guard lock(self.domain_.mutex());
        for (std::size_t i = 0; i < count; ++i) {
            Address address;
            std::memcpy(&address, static_cast<const char*>(addresses) + i * sizeof(address), sizeof(address));
            const bool real = address.gid[0] == 0xfe && address.gid[1] == 0x80;
            const fi_addr_t position = real ? self.insert_one(address) : FI_ADDR_NOTAVAIL;
            if (positions) positions[i] = position;
            const bool good = position != FI_ADDR_NOTAVAIL;
            inserted += good;
            if (flags & FI_SYNC_ERR) static_cast<int*>(context)[i] = good ? 0 : FI_EINVAL;
        }
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    }
    return inserted;
}

int AddressVector::remove(fid_av* vector, fi_addr_t* positions, std::size_t count, std::uint64_t) {
    auto& self = *static_cast<AddressVector*>(vector);
    const std::lock_guard lock(self.domain_.mutex());
    int rc = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!self.remove_one(positions[i])) rc = -FI_EINVAL;
    }
    return rc;
}

int AddressVector::lookup(fid_av* vector, fi_addr_t position, void* address, std::size_t* length) {
    auto& self = *static_cast<AddressVector*>(vector);
    const std::lock_guard lock(self.domain_.mutex());
    const Peer* peer = self.find(position);
    if (!peer) return -FI_EINVAL;
    std::memcpy(address, &peer->address(), std::min(*length, sizeof(Address)));
    *length = sizeof(Address);
    return 0;
}

const char* AddressVector::straddr(fid_av*, const void* address, char* buffer, std::size_t* length) {
    Address parts;
    std::memcpy(&parts, address, sizeof(parts));
    const int needed = std::snprintf(buffer, *length, "fi_addr_efa://[%s]:%u:%u", gid_text(parts.gid).c_str(),
                                     parts.queue_pair, parts.connection);
    *length = static_cast<std::size_t>(needed) + 1;
    return buffer;
}

int AddressVector::close_fid(::fid* handle) {
    AddressVector* vector = from(handle);
    Domain& domain = vector->domain_;
    {
        const std::lock_guard lock(domain.mutex());
        if (vector->users_ > 0) return -FI_EBUSY;
        delete vector;
    }
    domain.remove_child();
    return 0;
}

fi_ops AddressVector::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = [](::fid*, ::fid*, std::uint64_t) { return 0; },
    .control = unsupported,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_av AddressVector::ops_ = [] {
    fi_ops_av calls{};  // later headers have more members, which stay null
    calls.size = offsetof(fi_ops_av, av_set) + sizeof(calls.av_set);
    calls.insert = insert;
    calls.insertsvc = unsupported;
    calls.insertsym = unsupported;
    calls.remove = remove;
    calls.lookup = lookup;
    calls.straddr = straddr;
    calls.av_set = unsupported;
    return calls;
}();

}  // namespace simefa
