// Endpoint: options, queues, and the calls that post.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "provider/completion_queue.h"
#include "provider/domain.h"
#include "provider/operation.h"
#include "provider/receive.h"
#include "provider/request.h"
#include "provider/transmit.h"

namespace simefa {

class AddressVector;
class RdmProtocol;

/// Guarded by the domain's lock, which the calls of the ops tables take.
class Endpoint final : public fid_ep, private OperationOwner, private Arrivals {
  public:
    static int open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);
    static Endpoint* from(::fid* handle) noexcept;

    /// Called by the completion queues it is bound to. `by_application` is false for the device alone, which
    /// does not carry out the protocol of fabric efa.
    void progress(std::uint64_t now, bool by_application) noexcept;
    [[nodiscard]] std::uint64_t next_due() const noexcept;
    [[nodiscard]] bool busy() const noexcept;
    void expect_bell() noexcept;
    /// To the event queue; without one the process aborts, as the real provider does.
    void report_internal_error(int error, int status) noexcept;

    // For the calls that post (post.cpp) and the protocol of fabric efa.
    ssize_t post(const Request& request) noexcept;
    ssize_t post_receive(const Request& request) noexcept;
    [[nodiscard]] Domain& domain() const noexcept { return domain_; }
    [[nodiscard]] Nic& nic() const noexcept { return domain_.nic(); }
    [[nodiscard]] AddressVector& vector() const noexcept { return *vector_; }
    [[nodiscard]] TransmitQueue& transmit() noexcept { return *transmit_; }
    [[nodiscard]] ReceiveQueue& receive() noexcept { return *receive_; }
    [[nodiscard]] const Address& address() const noexcept { return address_; }
    [[nodiscard]] std::uint32_t features() const noexcept { return features_; }
    /// Whether success is not to be told: FI_SELECTIVE_COMPLETION.
    [[nodiscard]] bool is_silent(std::uint64_t flags) const noexcept {
        return selective_transmit_ && !(flags & FI_COMPLETION);
    }
    ssize_t post_direct(const Request& request, Peer& peer) noexcept;
    [[nodiscard]] std::uint64_t transmit_flags() const noexcept { return transmit_flags_; }
    /// Messages of one sender come in the order they were sent, which was asked for.
    [[nodiscard]] bool ordered() const noexcept { return ordered_; }
    /// Completion of a transmit operation or a receive, by the binding's rules.
    void complete_transmit(const Completion& completion, bool silent) noexcept;
    void complete_receive(const Completion& completion) noexcept;

  private:
    Endpoint(Domain& domain, const fi_info& info, void* context_of_user);
    ~Endpoint();
    int enable();
    void create_record();
    ssize_t refuse(int error) noexcept;
    /// As fabric efa does before it closes, but with a limit.
    void wait_for_sends() noexcept;
    [[nodiscard]] int check(const Request& request) const noexcept;
    void operation_done(Operation& operation, int status) noexcept override;
    void message_arrived(const ReceiveSlot& slot) noexcept override;
    void notice_arrived(const NoticeSlot& slot) noexcept override;

    static int close_fid(::fid* handle);
    static int bind(::fid* handle, ::fid* other, std::uint64_t flags);
    static int control(::fid* handle, int command, void* argument);
    static int getopt(::fid* handle, int level, int name, void* value, std::size_t* length);
    static int setopt(::fid* handle, int level, int name, const void* value, std::size_t length);
    int set_gpu_option(int name, const void* value, std::size_t length) noexcept;
    static int getname(::fid* handle, void* address, std::size_t* length);
    static fi_ops fid_ops_;
    static fi_ops_ep ops_;
    static fi_ops_cm cm_ops_;
    friend struct EndpointOptions;

    Domain& domain_;
    const bool direct_;
    const std::size_t transmit_depth_, receive_depth_, inject_size_;
    const std::uint64_t max_message_, transmit_flags_;
    const bool ordered_;
    std::uint32_t features_ = 0;
    bool use_device_rdma_, unsolicited_;
    unsigned not_ready_limit_;
    int peer_to_peer_ = FI_HMEM_P2P_ENABLED;
    bool cuda_permitted_ = true, shared_memory_permitted_ = true;
    CompletionQueue* transmit_queue_ = nullptr;
    CompletionQueue* receive_queue_ = nullptr;
    AddressVector* vector_ = nullptr;
    EventQueue* event_queue_ = nullptr;
    bool selective_transmit_ = false, selective_receive_ = false;
    bool enabled_ = false;
    Address address_{};
    std::string file_, bell_file_;
    int bell_ = -1;
    std::shared_ptr<MappedFile> record_;
    std::optional<TransmitQueue> transmit_;
    std::optional<ReceiveQueue> receive_;
    std::unique_ptr<RdmProtocol> protocol_;  ///< of fabric efa
};

extern fi_ops_msg message_ops;
extern fi_ops_rma rma_ops;
extern fi_ops_tagged tagged_ops;

}  // namespace simefa
