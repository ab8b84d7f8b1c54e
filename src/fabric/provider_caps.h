// Everything in which providers differ, decided once per device from its fi_info.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

#include "common/status.h"

namespace railyard::fabric {

/// Whose a provider's own error codes are.
enum class Codes : std::uint8_t { unread, efa, cxi, verbs };

struct ProviderCaps {
    bool virtual_addresses =
        false;                   ///< remote addresses are the target's pointers; else offsets into the region
    bool provider_keys = false;  ///< the provider draws memory keys; else we do, at random
    bool local_descriptors = false;      ///< local buffers of every operation need a registration
    bool endpoint_registration = false;  ///< regions are bound to the endpoint and enabled (cxi)
    bool blocking_wait = false;          ///< the completion queue can be waited for through a file descriptor
    bool shares_endpoints = false;       ///< endpoints of one process look into each other's memory (shm)
    bool keeps_addresses =
        false;  ///< a removed address must not be reused: its slot remembers the old peer (shm)
    std::size_t most_peers = SIZE_MAX;  ///< that are known in a process's life, as none is forgotten (shm)
    bool direct_rma = false;  ///< writes go straight into the peer's memory where the kernel lets us (shm)
    bool stale_wait_signal = false;   ///< the queue's descriptor stays readable once it was (net of 1.17)
    bool needs_introduction = false;  ///< the target must have our address before any operation (efa-direct)
    bool completes_placed = false;    ///< a write's completion means placed without being asked (efa-direct)
    bool separate_sender = false;  ///< operations leave from an endpoint of their own, which can be replaced
    bool own_vectors = false;  ///< an address vector serves one endpoint ever (efa of libfabric up to 2.2)
    /// Operations that are refused for their key say so (key_refused), and a key that is another memory's by
    /// now lets nobody past that.
    bool tells_of_refused_keys = false;
    bool late_after_error = false;  ///< an operation may go on after its error, until its endpoint is closed
    /// A message to who has no receive buffer is tried for ever unless the endpoint is told otherwise, and no
    /// write with immediate data is: where these take receive buffers, they are to wait (efa-direct).
    bool retries_for_ever = false;
    bool loses_answers = false;  ///< an operation may never end although its peer is well (efa)
    /// No endpoint may be closed where fi_cq_read stands in front of an error: efa of libfabric 2.4 and 2.5
    /// touches what has gone with it.
    bool reads_before_close = false;
    /// What the device says of operations that are closed with their endpoint stays in its completion queue,
    /// where rdma-core takes it for the operation before it, or for one of an endpoint that has got the same
    /// number since (efa-direct).
    bool spoils_queue = false;
    /// An endpoint is closed when all that it has sent has ended, which may be never, and its domain stands
    /// still until then (fabric efa).
    bool waits_to_close = false;
    /// Each endpoint has as many registered receive buffers of the provider's own as rx_attr says, of a
    /// packet each (fabric efa).
    bool own_receives = false;
    /// Reaches peers on its host through memory shared with them unless told not to (fabric efa).
    bool shares_memory = false;
    /// One registration may take no more than a million pages: some devices with RDMA WRITE, to which every
    /// one is to be written to, whatever was asked for (efa, but not its first generation).
    bool may_limit_pages = false;
    /// A post with FI_MORE leaves at the latest with one that follows without it. Fabric efa posts again by
    /// itself what it had put off, FI_MORE and all, and rings for none of it.
    bool rings_for_more = true;
    bool sends_into_sockets =
        false;  ///< a message's completion tells nothing of the peer unless asked to (tcp)
    bool answers_at_sender = false;  ///< messages to a peer's sender take the connection that it made (tcp)
    bool stays_on_host = false;      ///< over the loopback interface (tcp)
    bool connected = false;          ///< a connection a peer (FI_EP_MSG)
    bool immediate_data = false;     ///< writes can bring the target 32 bits of it
    bool tells_of_writes = false;    ///< and that takes no receive buffer there, nor a slower path (efa)
    /// Where writes go by messages, they bring it whatever the devices do (Endpoint::emulates_writes): fabric
    /// efa. Its devices have to agree whether it takes a receive buffer, else the post is refused.
    bool messages_tell = false;
    bool gpu_memory = false;      ///< regions may lie in GPU memory (FI_HMEM was asked for and granted)
    std::size_t key_size = 8;     ///< bytes of a memory key
    std::uint64_t least_key = 0;  ///< of ours: what has a lower one is not unlinked by its close (cxi)
    Codes codes = Codes::unread;  ///< of what fails
    std::size_t rma_pieces = 1;   ///< that one read or write may consist of, anywhere on either side
    std::size_t max_rma = 0;      ///< longest single read or write (bytes)
    /// Longest message that leaves without the receiver's help: with more, shm waits for it in line.
    std::size_t max_eager = SIZE_MAX;
    unsigned usual_rails = 1;        ///< endpoints that it takes to make the most of one device alone
    std::size_t transmit_depth = 0;  ///< operations the endpoint takes before it answers EAGAIN
};

[[nodiscard]] ProviderCaps provider_caps(const fi_info& info);

/// What libfabric takes for no, as the value of one of its variables; nullptr: it is not set.
[[nodiscard]] bool says_no(const char* value) noexcept;

/// What rails_per_device = `asked` means for so many devices of one kind.
[[nodiscard]] inline std::uint64_t rails_on_each(std::uint64_t asked, std::size_t devices,
                                                 const ProviderCaps& caps) noexcept {
    if (asked != 0) return asked;
    return devices == 1 ? caps.usual_rails : 1;
}

/// What the failure of one operation means: remote_disconnect when nobody answered or the way there is gone,
/// so that another rail may do better; backend otherwise.
/// `error` is a positive libfabric errno, `provider_error` the provider's own code (EFA's is listed in
/// fi_efa(7); cxi's are the NIC's, enum c_return_code; those of verbs are enum ibv_wc_status).
[[nodiscard]] Status classify_failure(Codes codes, int error, int provider_error) noexcept;

/// True when a message failed for want of a receive buffer at the target (RNR) alone.
[[nodiscard]] bool receiver_not_ready(Codes codes, int error, int provider_error) noexcept;
/// Our own device refused the operation: nothing of it has left.
[[nodiscard]] bool refused_here(Codes codes, int provider_error) noexcept;
/// The target refuses an endpoint that it does not have in its address vector (efa-direct).
[[nodiscard]] bool unknown_at_target(Codes codes, int provider_error) noexcept;
/// Its endpoint has been destroyed with it, by us or by the device.
[[nodiscard]] bool flushed(Codes codes, int provider_error) noexcept;
/// The target's NIC knows no memory there by that key.
[[nodiscard]] bool key_refused(Codes codes, int provider_error) noexcept;

}  // namespace railyard::fabric
