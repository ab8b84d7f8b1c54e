// Opening an endpoint by hand, and the two calls of the loop.
#include "raw_rail.h"

#include <cstring>

#include "common/random.h"
#include "fabric/direct_access.h"

namespace railyard::bench {

using fabric::check;
using fabric::Fid;

nlohmann::json to_json(const RawRemote& remote) {
    return {{"address", nlohmann::json::binary({remote.address.begin(), remote.address.end()})},
            {"key", remote.key},
            {"base", remote.base}};
}

RawRemote raw_remote(const nlohmann::json& json) {
    const auto& address = json.at("address").get_binary();
    return {std::string(address.begin(), address.end()), json.at("key"), json.at("base")};
}

RawRail::RawRail(const fabric::Device& device, bool wait_fd, std::span<std::byte> memory, RawNotice notice)
    : name_("raw " + device.provider + ":" + device.name),
      info_(fi_dupinfo(device.info.get())),
      direct_rma_(device.caps.direct_rma),
      notice_(notice),
      message_flags_(device.caps.sends_into_sockets ? FI_DELIVERY_COMPLETE : 0) {
    if (!info_) throw Error(Status::backend, "fi_dupinfo failed on " + name_ + ": out of memory");
    depth_ = info_->tx_attr->size;

    fid_fabric* fabric = nullptr;
    check(fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric", name_);
    fabric_ = Fid<fid_fabric>(fabric);
    fid_domain* domain = nullptr;
    check(fi_domain(fabric, info_.get(), &domain, nullptr), "fi_domain", name_);
    domain_ = Fid<fid_domain>(domain);

    fi_eq_attr event_attr{};
    event_attr.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* events = nullptr;
    check(fi_eq_open(fabric, &event_attr, &events, nullptr), "fi_eq_open", name_);
    events_ = Fid<fid_eq>(events);

    open_queue(wait_fd);
    fi_av_attr address_attr{};
    address_attr.type = FI_AV_TABLE;
    address_attr.count = 4;
    fid_av* addresses = nullptr;
    check(fi_av_open(domain, &address_attr, &addresses, nullptr), "fi_av_open", name_);
    addresses_ = Fid<fid_av>(addresses);

    open_endpoint();
    descriptor_ = register_memory(memory, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, region_);
    local_.key = fi_mr_key(region_.get());
    local_.base = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0
                      ? reinterpret_cast<std::uint64_t>(memory.data())
                      : 0;
    if (notice_ == RawNotice::message) open_messages();
}

void RawRail::open_queue(bool wait_fd) {
    fi_cq_attr queue_attr{};
    queue_attr.size = depth_ + info_->rx_attr->size;
    queue_attr.format = notice_ == RawNotice::none ? FI_CQ_FORMAT_CONTEXT : FI_CQ_FORMAT_DATA;
    queue_attr.wait_obj = wait_fd ? FI_WAIT_FD : FI_WAIT_NONE;
    fid_cq* queue = nullptr;
    int status = fi_cq_open(domain_.get(), &queue_attr, &queue, nullptr);
    if (status != 0 && wait_fd) {  // shm has no wait object
        queue_attr.wait_obj = FI_WAIT_NONE;
        status = fi_cq_open(domain_.get(), &queue_attr, &queue, nullptr);
    }
    check(status, "fi_cq_open", name_);
    queue_ = Fid<fid_cq>(queue);
}

void RawRail::open_endpoint() {
    fid_ep* endpoint = nullptr;
    check(fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr), "fi_endpoint", name_);
    endpoint_ = Fid<fid_ep>(endpoint);
    fi_ep_bind(endpoint, &events_->fid, 0);  // not every provider takes one, none needs it to move data
    check(fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind(cq)", name_);
    check(fi_ep_bind(endpoint, &addresses_->fid, 0), "fi_ep_bind(av)", name_);
    check(fi_enable(endpoint), "fi_enable", name_);
    std::size_t length = 0;
    fi_getname(&endpoint->fid, nullptr, &length);
    local_.address.resize(length);
    check(fi_getname(&endpoint->fid, local_.address.data(), &length), "fi_getname", name_);
}

void* RawRail::register_memory(std::span<std::byte> memory, std::uint64_t access, Fid<fid_mr>& region) {
    const int mode = info_->domain_attr->mr_mode;
    std::uint64_t key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : random_u64();
    if (info_->domain_attr->mr_key_size < 8)
        key &= (std::uint64_t{1} << (8 * info_->domain_attr->mr_key_size)) - 1;
    fid_mr* made = nullptr;
    check(fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, &made, nullptr),
          "fi_mr_reg (if memory is locked: `ulimit -l`)", name_);
    region = Fid<fid_mr>(made);
    if ((mode & FI_MR_ENDPOINT) != 0) {
        check(fi_mr_bind(made, &endpoint_->fid, 0), "fi_mr_bind", name_);
        check(fi_mr_enable(made), "fi_mr_enable", name_);
    }
    return fi_mr_desc(made);
}

void RawRail::open_messages() {
    received_.resize(receives + 1);
    received_descriptor_ =
        register_memory(std::as_writable_bytes(std::span(received_)), FI_SEND | FI_RECV, received_region_);
    for (std::size_t i = 0; i < receives; ++i)
        post_receive(i);
}

void RawRail::post_receive(std::size_t index) {
    Received& to = received_[index];
    check(fi_recv(endpoint_.get(), to.bytes.data(), to.bytes.size(), received_descriptor_, FI_ADDR_UNSPEC,
                  &to.context),
          "fi_recv", name_);
}

void RawRail::connect(const RawRemote& remote) {
    remote_ = remote;
    // The same completion as the plugin asks for: a direct copy needs no confirmation (see
    // ProviderCaps::direct_rma).
    const bool direct = direct_rma_ && fabric::may_access_process_of(remote_.address);
    write_flags_ = direct ? 0 : FI_DELIVERY_COMPLETE;
    if (fi_av_insert(addresses_.get(), remote_.address.data(), 1, &peer_, 0, nullptr) != 1) {
        throw Error(Status::backend, "fi_av_insert failed on " + name_);
    }
}

bool RawRail::post(host::Op op, RawOperation& operation, bool more) {
    iovec local{operation.local, operation.length};
    fi_rma_iov remote{remote_.base + operation.offset, operation.length, remote_.key};
    fi_msg_rma message{};
    message.msg_iov = &local;
    message.desc = &descriptor_;
    message.iov_count = 1;
    message.addr = peer_;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &operation;
    message.data = operation.immediate;
    const std::uint64_t flags =
        FI_COMPLETION | (more ? FI_MORE : 0) | (notice_ == RawNotice::immediate ? FI_REMOTE_CQ_DATA : 0);
    ssize_t status = op == host::Op::write ? fi_writemsg(endpoint_.get(), &message, flags | write_flags_)
                                           : fi_readmsg(endpoint_.get(), &message, flags);
    if (status == -FI_EAGAIN) return false;
    check(status, op == host::Op::write ? "fi_writemsg" : "fi_readmsg", name_);
    ++outstanding_;
    return true;
}

bool RawRail::post_message(RawOperation& operation) {
    const iovec from{received_.back().bytes.data(), message_size};
    const fi_msg message{&from, &received_descriptor_, 1, peer_, &operation, 0};
    const ssize_t status = fi_sendmsg(endpoint_.get(), &message, FI_COMPLETION | message_flags_);
    if (status == -FI_EAGAIN) return false;
    check(status, "fi_sendmsg", name_);
    ++outstanding_;
    return true;
}

std::size_t RawRail::poll(Completions& completions) {
    ssize_t count = fi_cq_read(queue_.get(), completions.data(), completions.size());
    if (count == -FI_EAGAIN || count == -FI_EINTR) return 0;
    if (count == -FI_EAVAIL) fail();
    check(count, "fi_cq_read", name_);
    outstanding_ -= static_cast<std::size_t>(count);
    return static_cast<std::size_t>(count);
}

void RawRail::poll_all(Ends& ends) {
    ends.count = ends.arrived = 0;
    std::array<fi_cq_data_entry, limit> entries;
    ssize_t count = fi_cq_read(queue_.get(), entries.data(), entries.size());
    if (count == -FI_EAGAIN || count == -FI_EINTR) return;
    if (count == -FI_EAVAIL) fail();
    check(count, "fi_cq_read", name_);
    for (ssize_t i = 0; i < count; ++i) {
        if (entries[i].flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) {
            ++ends.arrived;  // whose context may be the writer's
        } else if (entries[i].flags & FI_RECV) {
            ++ends.arrived;
            post_receive(
                static_cast<std::size_t>(static_cast<Received*>(entries[i].op_context) - received_.data()));
        } else {
            ends.ours[ends.count++] = static_cast<RawOperation*>(entries[i].op_context);
        }
    }
    outstanding_ -= ends.count;
}

void RawRail::fail() {
    fi_cq_err_entry error{};
    check(fi_cq_readerr(queue_.get(), &error, 0), "fi_cq_readerr", name_);
    throw Error(Status::backend,
                "an operation failed on " + name_ + ": " + fi_strerror(error.err) + ", " +
                    fi_cq_strerror(queue_.get(), error.prov_errno, error.err_data, nullptr, 0));
}

void RawRail::serve() noexcept {
    Completions ignored;
    if (fi_cq_read(queue_.get(), ignored.data(), ignored.size()) == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        fi_cq_readerr(queue_.get(), &error, 0);
    }
}

}  // namespace railyard::bench
