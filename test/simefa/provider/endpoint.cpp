#include "provider/endpoint.h"

#include <fcntl.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "provider/address_vector.h"
#include "provider/device_limits.h"
#include "provider/event_queue.h"
#include "provider/fids.h"
#include "provider/nic_fid.h"
#include "provider/rdm_protocol.h"

namespace simefa {
namespace {

constexpr std::size_t arrivals_per_progress = 256;
constexpr unsigned not_ready_default_rdm = 3;
constexpr unsigned not_ready_forever = 7;

std::uint32_t random_connection() noexcept {
    return static_cast<std::uint32_t>(Random(now_ns() ^ this_process()).next() | 1);
}

template <std::size_t N>
void copy_name(char (&to)[N], const std::string& from) noexcept {
    std::snprintf(to, N, "%s", from.c_str());
}

}  // namespace

Endpoint::Endpoint(Domain& domain, const fi_info& info, void* context_of_user)
    : fid_ep{},
      domain_(domain),
      direct_(domain.kind() == FabricKind::direct),
      transmit_depth_(info.tx_attr && info.tx_attr->size ? std::min(info.tx_attr->size, transmit_depth)
                                                         : transmit_depth),
      receive_depth_(info.rx_attr && info.rx_attr->size ? std::min(info.rx_attr->size, receive_depth)
                                                        : receive_depth),
      inject_size_(direct_ ? inject_direct : inject_rdm),
      max_message_(direct_ ? mtu : SIZE_MAX),
      transmit_flags_(info.tx_attr ? info.tx_attr->op_flags : 0),
      ordered_(info.rx_attr && (info.rx_attr->msg_order & FI_ORDER_SAS)),
      use_device_rdma_(device_rdma_allowed(domain.api_version())),
      unsolicited_(!(info.mode & FI_RX_CQ_DATA)),
      not_ready_limit_(direct_ ? not_ready_forever : not_ready_default_rdm) {
    fid.fclass = FI_CLASS_EP;
    fid.context = context_of_user;
    fid.ops = &fid_ops_;
    ops = &ops_;
    cm = &cm_ops_;
    msg = &message_ops;
    rma = &rma_ops;
    tagged = &tagged_ops;
}

Endpoint::~Endpoint() {
    protocol_.reset();
    if (bell_ >= 0) ::close(bell_);
}

int Endpoint::open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    if (info->ep_attr && info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC)
        return -FI_EINVAL;
    try {
        Domain& owner = *Domain::from(&domain->fid);
        *endpoint = new Endpoint(owner, *info, context);
        owner.add_child();
        return 0;
    } catch (const std::exception&) {
        return -FI_ENOMEM;
    }
}

Endpoint* Endpoint::from(::fid* handle) noexcept {
    return object_of<Endpoint, fid_ep>(handle);
}

int Endpoint::bind(::fid* handle, ::fid* other, std::uint64_t flags) {
    Endpoint& self = *from(handle);
    const std::lock_guard lock(self.domain_.mutex());
    switch (other->fclass) {
        case FI_CLASS_CQ: {
            CompletionQueue& queue = *CompletionQueue::from(other);
            if (&queue.domain() != &self.domain_ || !(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EINVAL;
            if (flags & FI_TRANSMIT) {
                self.transmit_queue_ = &queue;
                self.selective_transmit_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
            }
            if (flags & FI_RECV) {
                self.receive_queue_ = &queue;
                self.selective_receive_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
            }
            return 0;
        }
        case FI_CLASS_AV:
            if (self.vector_) return -FI_EINVAL;
            if (!AddressVector::from(other)->bind()) return -FI_ENOSYS;
            self.vector_ = AddressVector::from(other);
            return 0;
        case FI_CLASS_EQ:
            self.event_queue_ = EventQueue::from(other);
            return 0;
        default:
            return -FI_EINVAL;
    }
}

int Endpoint::control(::fid* handle, int command, void*) {
    if (command != FI_ENABLE) return -FI_ENOSYS;
    Endpoint& self = *from(handle);
    const std::lock_guard lock(self.domain_.mutex());
    try {
        return self.enable();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "simefa: %s\n", error.what());
        return -FI_ENOMEM;
    }
}

int Endpoint::enable() {
    if (enabled_) return 0;
    if (!transmit_queue_ || !receive_queue_) return -FI_ENOCQ;
    if (!vector_) return -FI_ENOAV;
    nic().refresh();
    if (nic().get(Setting::gone)) return -FI_ENODEV;
    const DeviceRdma rdma = device_rdma(nic().description());
    if (nic().get(Setting::unsolicited) == 1) unsolicited_ = false;
    const bool may = direct_ || use_device_rdma_;
    features_ = (rdma.read && may ? feature_read : 0) | (rdma.write && may ? feature_write : 0) |
                (unsolicited_ ? feature_unsolicited : 0);
    create_record();
    transmit_.emplace(nic(), static_cast<OperationOwner&>(*this), transmit_depth_);
    transmit_->sender = {address_.id(), direct_, unsolicited_,
                         direct_ ? not_ready_limit_ : not_ready_forever};
    if (!direct_) protocol_ = std::make_unique<RdmProtocol>(*this);
    transmit_queue_->attach(*this);
    receive_queue_->attach(*this);
    receive_queue_->add_bell(bell_);
    nic().slot().count(Counter::endpoints);
    if (!direct_) nic().slot().count(Counter::receive_buffers, receive_depth_);
    record_->as<EndpointRecord>().state.store(EndpointState::open);
    enabled_ = true;
    return 0;
}

void Endpoint::create_record() {
    Cluster& cluster = nic().cluster();
    fill_gid(address_.gid, nic().slot().host, nic().description().name);
    address_.queue_pair = static_cast<std::uint16_t>(nic().slot().next_queue_pair.fetch_add(1) + 1);
    address_.connection = random_connection();
    file_ = Cluster::endpoint_name(address_);
    bell_file_ = cluster.fresh_name("bell");
    record_ = cluster.create(file_, sizeof(EndpointRecord), [&](MappedFile& mapped) {
        auto& record = mapped.as<EndpointRecord>();
        record.owner.store(this_process());
        record.address = address_;
        record.nic_slot = cluster.index_of(nic().slot());
        record.direct = direct_;
        record.receive_mask = static_cast<std::uint32_t>(std::bit_ceil(receive_depth_) - 1);
        record.features.store(features_);
        copy_name(record.domain_file, domain_.file());
        copy_name(record.vector_file, vector_->file());
        copy_name(record.bell_file, bell_file_);
        cluster.make_bell(bell_file_);
        record.magic.store(layout_magic);
    });
    bell_ = ::open(cluster.path(bell_file_).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    receive_.emplace(record_->as<EndpointRecord>(), domain_.record(), receive_depth_);
}

/// With the domain's lock held, as the real one has it: nobody gets on there meanwhile. What waits for a
/// handshake or for a receipt is not waited for.
void Endpoint::wait_for_sends() noexcept {
    nic().refresh();
    const std::uint64_t set = nic().get(Setting::close_wait);
    const std::uint64_t limit = now_ns() + (set ? set : default_close_wait);
    while (transmit_->unfinished()) {
        if (now_ns() >= limit) {
            std::fprintf(stderr,
                         "simefa: an endpoint of fabric efa is closed with unfinished sends: the real one "
                         "would wait for ever\n");
            return;
        }
        transmit_queue_->progress(true);
        if (receive_queue_ != transmit_queue_) receive_queue_->progress(true);
        std::this_thread::yield();
    }
}

int Endpoint::close_fid(::fid* handle) {
    Endpoint* self = from(handle);
    Domain& domain = self->domain_;
    {
        const std::lock_guard lock(domain.mutex());
        if (self->enabled_) {
            if (!self->direct_) self->wait_for_sends();
            if (self->direct_ && self->transmit_->unfinished()) self->transmit_queue_->spoil();
            self->nic().cluster().remove(self->file_);
            self->nic().cluster().remove(self->bell_file_);
            self->transmit_->drop_all();
            self->receive_->close();
            self->nic().slot().uncount(Counter::endpoints);
            if (!self->direct_) self->nic().slot().uncount(Counter::receive_buffers, self->receive_depth_);
        }
        if (self->transmit_queue_) self->transmit_queue_->detach(*self);
        if (self->receive_queue_) self->receive_queue_->detach(*self);
        if (self->vector_) self->vector_->remove_user();
        delete self;
    }
    domain.remove_child();
    return 0;
}

void Endpoint::report_internal_error(int error, int status) noexcept {
    EventQueue* queue = event_queue_ ? event_queue_ : domain_.event_queue();
    if (queue) {
        queue->push_error(&fid, error, status);
        return;
    }
    std::fprintf(stderr,
                 "simefa: internal error (%s) and no event queue to report it to: aborting, as efa does\n",
                 std::strerror(error));
    std::abort();
}

void Endpoint::progress(std::uint64_t now, bool by_application) noexcept {
    nic().refresh();
    if (nic().strikes(Setting::internal_error_next)) report_internal_error(FI_EIO, status_internal);
    transmit_->progress(now);
    if (protocol_ && !by_application) return;
    receive_->progress(*this, arrivals_per_progress, now);
    if (!protocol_) return;
    protocol_->progress(now);
    transmit_->progress(now_ns());  // answers leave in the same call
}

std::uint64_t Endpoint::next_due() const noexcept {
    const std::uint64_t due = transmit_->next_due();
    return protocol_ ? std::min(due, protocol_->next_due()) : due;
}

bool Endpoint::busy() const noexcept {
    return receive_->busy();
}

void Endpoint::expect_bell() noexcept {
    char bytes[256];
    while (read(bell_, bytes, sizeof(bytes)) == sizeof(bytes)) {
    }
    record_->as<EndpointRecord>().armed.store(1);
}

void Endpoint::complete_transmit(const Completion& completion, bool silent) noexcept {
    if (!silent || completion.status != 0) transmit_queue_->push(completion);
}

void Endpoint::complete_receive(const Completion& completion) noexcept {
    receive_queue_->push(completion);
}

void Endpoint::operation_done(Operation& operation, int status) noexcept {
    Completion completion;
    completion.context = operation.context;
    completion.flags = operation.completion_flags;
    completion.status = status;
    complete_transmit(completion, operation.silent);
}

void Endpoint::message_arrived(const ReceiveSlot& slot) noexcept {
    if (protocol_) {
        if (slot.flags & receive_is_write) {
            protocol_->data_arrived(slot);
        } else {
            protocol_->packet_arrived(slot);
        }
        return;
    }
    Completion completion;
    completion.context = reinterpret_cast<void*>(slot.context);
    completion.flags = slot.flags & receive_is_write ? FI_RMA | FI_REMOTE_WRITE : FI_RECV | FI_MSG;
    if (slot.flags & receive_has_data) completion.flags |= FI_REMOTE_CQ_DATA;
    completion.length = slot.length;
    completion.data = slot.data;
    completion.buffer = slot.segment_count ? reinterpret_cast<void*>(slot.segments[0].address) : nullptr;
    completion.source = vector_->position_of(slot.source);
    if (slot.flags & receive_truncated) completion.status = status_remote_length;
    complete_receive(completion);
}

void Endpoint::notice_arrived(const NoticeSlot& slot) noexcept {
    Completion completion;
    completion.flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
    completion.length = slot.length;
    completion.data = slot.data;
    completion.source = vector_->position_of(slot.source);
    complete_receive(completion);
}

int Endpoint::getname(::fid* handle, void* address, std::size_t* length) {
    Endpoint& self = *from(handle);
    if (!self.enabled_) return -FI_EOPBADSTATE;
    const std::size_t room = *length;
    *length = sizeof(Address);
    if (room > 0 && address) std::memcpy(address, &self.address_, std::min(room, sizeof(Address)));
    return room < sizeof(Address) ? -FI_ETOOSMALL : 0;
}

fi_ops Endpoint::fid_ops_ = {
    .size = sizeof(fi_ops),
    .close = close_fid,
    .bind = bind,
    .control = control,
    .ops_open = unsupported,
    .tostr = unsupported,
    .ops_set = unsupported,
};

fi_ops_ep Endpoint::ops_ = {
    .size = sizeof(fi_ops_ep),
    .cancel = unsupported,
    .getopt = getopt,
    .setopt = setopt,
    .tx_ctx = unsupported,
    .rx_ctx = unsupported,
    .rx_size_left = unsupported,
    .tx_size_left = unsupported,
};

fi_ops_cm Endpoint::cm_ops_ = {
    .size = sizeof(fi_ops_cm),
    .setname = unsupported,
    .getname = getname,
    .getpeer = unsupported,
    .connect = unsupported,
    .listen = unsupported,
    .accept = unsupported,
    .reject = unsupported,
    .shutdown = unsupported,
    .join = unsupported,
};

}  // namespace simefa
