#include "fabric/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/fork_watch.h"
#include "common/log.h"
#include "common/shortage.h"
#include "fabric/shm_names.h"

namespace railyard::fabric {
namespace {

// Endpoint options of libfabric 1.18, by the numbers that its ABI fixed: older headers lack the names. bool.
constexpr int opt_cuda_api_permitted = 10;
constexpr int opt_shared_memory_permitted = 11;
/// Of efa (fi_ext.h). size_t; bool.
constexpr int opt_efa_rnr_retry = -(0xefa << 16);
constexpr int opt_efa_emulated_write = opt_efa_rnr_retry + 2;

/// Of the device, to send to who has no receive buffer, before it says so: ControlChannel tries again, in
/// pauses. Fabric efa, which does so too, asks for as many.
constexpr std::size_t few_retries = 3;

/// Receive buffers of a provider's own, for answers to what an endpoint sends: READs that go by messages are
/// the longest, and who finds none for a moment comes again.
constexpr std::size_t most_answers = 1024;

/// 0 or a negative libfabric error.
template <class T>
int set_option(fid_ep* endpoint, int option, const char* name, T value, const std::string& rail) {
    const int rc = fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value));
    if (rc != 0) RAILYARD_LOG(debug, rail.c_str(), "%s is refused: %s", name, fi_strerror(-rc));
    return rc;
}

/// Keeps the CPU, and CUDA calls inside the provider, away from GPU memory. False: the provider cannot do
/// without.
bool require_peer_to_peer(fid_ep* endpoint, const std::string& rail) {
    const int required =
        set_option<int>(endpoint, FI_OPT_FI_HMEM_P2P, "FI_OPT_FI_HMEM_P2P", FI_HMEM_P2P_REQUIRED, rail);
    set_option(endpoint, opt_cuda_api_permitted, "FI_OPT_CUDA_API_PERMITTED", false, rail);
    set_option(endpoint, opt_shared_memory_permitted, "FI_OPT_SHARED_MEMORY_PERMITTED", false, rail);
    // verbs;ofi_rxm does not have the option: its one-sided operations know no other way.
    if (required == 0 || required == -FI_ENOPROTOOPT) return true;
    RAILYARD_LOG(info, rail.c_str(), "not peer to peer with GPUs: their memory goes by way of host memory");
    return false;
}

/// A libfabric that lacks the option (before 1.18) has no other WRITE.
bool is_emulated(fid_ep* endpoint) {
    bool emulated = true;
    std::size_t length = sizeof(emulated);
    const int rc = fi_getopt(&endpoint->fid, FI_OPT_ENDPOINT, opt_efa_emulated_write, &emulated, &length);
    return rc != 0 || emulated;
}

std::string name_of(fid* endpoint, const std::string& rail) {
    std::size_t length = 0;
    fi_getname(endpoint, nullptr, &length);
    std::string name(length, '\0');
    check(fi_getname(endpoint, name.data(), &length), "fi_getname", rail);
    name.resize(length);
    return name;
}

/// libfabric makes a file for it when it is enabled, and does not ask whether it may.
void require_room_in_shm(const std::string& rail) {
    if (may_grow_file_to(shm_endpoint_bytes)) return;
    throw Error(Status::backend,
                "no endpoint of shm on " + rail + ": the file size limit is below the " +
                    std::to_string(shm_endpoint_bytes / 1024) +
                    " KiB of its file in /dev/shm: raise it (`ulimit -f`), or use provider=tcp");
}

/// The first one looks for what others have left behind.
void give_name_of_our_own(fi_info& info, const std::string& rail) {
    struct Cleaned {
        Cleaned() { remove_shm_leftovers(); }
    };
    static constinit OfThisProcess<Cleaned> cleaned;
    cleaned.get();
    const std::string& name = shm_name_of_this_process();
    char* const copy = strdup(name.c_str());
    if (!copy) throw Error(Status::backend, "no endpoint of shm on " + rail + ": out of memory");
    std::free(std::exchange(info.src_addr, copy));
    info.src_addrlen = name.size() + 1;
}

}  // namespace

Endpoint::Endpoint(Domain& domain, CompletionQueue& queue, AddressVector& addresses, Duty duty)
    : addresses_(addresses) {
    if (domain.caps().connected) {
        open_connected(domain, queue, addresses, duty);
    } else {
        open_datagrams(domain, queue, addresses, duty);
    }
    if (!domain.caps().rings_for_more) more_flag_ = 0;
    // Completion must mean "placed at the target", also where the provider emulates writes with messages.
    if (!domain.caps().direct_rma && !domain.caps().completes_placed) confirm_delivery();
}

void Endpoint::open_connected(Domain& domain, CompletionQueue& queue, const AddressVector& addresses,
                              Duty duty) {
    const fi_info& info = domain.info();
    if (duty == Duty::send) {
        connections_ = std::make_unique<Connections>(domain, queue, addresses);
        name_.assign(static_cast<const char*>(info.src_addr), info.src_addrlen);
        return;
    }
    fi_rx_attr attr = *info.rx_attr;
    fid_ep* receives = nullptr;
    check(fi_srx_context(domain.get(), &attr, &receives, nullptr), "fi_srx_context", domain.rail());
    endpoint_ = Fid<fid_ep>(receives);
    listener_ = std::make_unique<Listener>(domain, queue, receives);
    name_ = name_of(listener_->handle(), domain.rail());
}

void Endpoint::open_datagrams(const Domain& domain, CompletionQueue& queue, AddressVector& addresses,
                              Duty duty) {
    const std::string& rail = domain.rail();
    // fi_endpoint takes an fi_info that it may write to; the domain's is shared.
    fi_info* info = fi_dupinfo(&domain.info());
    if (!info) throw Error(Status::backend, "fi_dupinfo failed on " + rail + ": out of memory");
    const InfoPtr owner(info);
    if (duty == Duty::send && domain.caps().own_receives)
        info->rx_attr->size = std::min(info->rx_attr->size, most_answers);
    if (domain.caps().shares_endpoints) {
        require_room_in_shm(rail);
        give_name_of_our_own(*info, rail);
    }
    fid_ep* endpoint = nullptr;
    check(fi_endpoint(domain.get(), info, &endpoint, nullptr), "fi_endpoint", rail);
    endpoint_ = Fid<fid_ep>(endpoint);
    // A process that is killed there leaves locks behind, and a closed endpoint what others still look at.
    if (domain.caps().shares_memory)
        set_option(endpoint, opt_shared_memory_permitted, "FI_OPT_SHARED_MEMORY_PERMITTED", false, rail);
    if (domain.caps().retries_for_ever)
        set_option(endpoint, opt_efa_rnr_retry, "FI_OPT_EFA_RNR_RETRY", few_retries, rail);
    if (domain.caps().gpu_memory) reaches_gpu_memory_ = require_peer_to_peer(endpoint, rail);
    const int rc = fi_ep_bind(endpoint, &domain.event_queue()->fid, 0);
    if (rc != 0) RAILYARD_LOG(debug, rail.c_str(), "no event queue on this endpoint: %s", fi_strerror(-rc));
    check(fi_ep_bind(endpoint, &queue.get()->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind(cq)", rail);
    check(fi_ep_bind(endpoint, &addresses.get()->fid, 0), "fi_ep_bind(av)", rail);
    check(fi_enable(endpoint), "fi_enable", rail);
    if (domain.caps().messages_tell) emulates_writes_ = is_emulated(endpoint);
    name_ = name_of(&endpoint->fid, rail);
}

PostResult Endpoint::refused(ssize_t rc) noexcept {
    if (rc == -FI_EAGAIN) return PostResult::again;
    last_error_ = static_cast<int>(-rc);
    return PostResult::failed;
}

PostResult Endpoint::no_way() noexcept {
    if (missing_ == 0) return PostResult::again;
    last_error_ = missing_;
    return PostResult::failed;
}

PostResult Endpoint::post_send(OpContext& op, void* buffer, std::size_t length, void* descriptor,
                               fi_addr_t destination) noexcept {
    fid_ep* const endpoint = way_to(destination);
    if (!endpoint) return no_way();
    return finish(op,
                  fi_send(endpoint, buffer, length, descriptor, addresses_.at_provider(destination), &op));
}

PostResult Endpoint::post_confirmed_send(OpContext& op, void* buffer, std::size_t length, void* descriptor,
                                         fi_addr_t destination) noexcept {
    fid_ep* const endpoint = way_to(destination);
    if (!endpoint) return no_way();
    iovec local{buffer, length};
    fi_msg message{};
    message.msg_iov = &local;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.addr = addresses_.at_provider(destination);
    message.context = &op;
    return finish(op, fi_sendmsg(endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

PostResult Endpoint::post_receive(OpContext& op, void* buffer, std::size_t length,
                                  void* descriptor) noexcept {
    return finish(op, fi_recv(endpoint_.get(), buffer, length, descriptor, FI_ADDR_UNSPEC, &op));
}

}  // namespace railyard::fabric
