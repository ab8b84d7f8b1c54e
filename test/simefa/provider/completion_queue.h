// Completion queue: ring, error state, waiting.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simefa {

class Domain;
class Endpoint;

struct Completion {
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t length = 0;
    void* buffer = nullptr;
    std::uint64_t data = 0;
    std::uint64_t tag = 0;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    std::uint64_t overflow = 0;  ///< bytes of a message that did not fit
    int status = 0;              ///< prov_errno; 0: success
};

/// Guarded by the domain's lock, which every call through the ops table takes. Reading drives the endpoints.
class CompletionQueue : public fid_cq {
  public:
    static int open(fid_domain* domain, fi_cq_attr* attr, fid_cq** queue, void* context);
    ~CompletionQueue();
    /// The process is at its end, and its devices are given back: like a real one, this provider does not
    /// wait for threads that are at work in it, and who reads a queue from then on crashes.
    static void take_devices_down() noexcept;

    void push(const Completion& completion) noexcept;
    void attach(Endpoint& endpoint);
    void detach(Endpoint& endpoint) noexcept;
    /// An endpoint of fabric efa-direct has been closed with operations under way, of which the device has
    /// put an end each into this queue.
    void spoil() noexcept { spoiled_ = true; }
    /// A post may have made the next wake-up earlier.
    void update_timer() noexcept;
    void add_bell(int descriptor) noexcept;
    /// Everything that is due now. `by_application`: see Endpoint::progress.
    void progress(bool by_application) noexcept;
    /// 0: it is safe to sleep on the wait descriptor. -FI_EAGAIN: read first.
    int try_wait() noexcept;

    Domain& domain() const noexcept { return domain_; }
    static CompletionQueue* from(::fid* handle) noexcept;

  private:
    CompletionQueue(Domain& owner, const fi_cq_attr& attr, void* context_of_user);
    int open_wait_objects() noexcept;
    void arm(std::uint64_t due) noexcept;
    ssize_t read(void* buffer, std::size_t count, fi_addr_t* sources) noexcept;
    ssize_t read_error(fi_cq_err_entry* entry) noexcept;
    ssize_t wait_and_read(void* buffer, std::size_t count, fi_addr_t* sources, int timeout_ms) noexcept;
    void overrun() noexcept;

    static int close_fid(::fid* handle);
    static int control(::fid* handle, int command, void* argument);
    static ssize_t read_call(fid_cq* queue, void* buffer, std::size_t count);
    static ssize_t readfrom_call(fid_cq* queue, void* buffer, std::size_t count, fi_addr_t* sources);
    static ssize_t readerr_call(fid_cq* queue, fi_cq_err_entry* entry, std::uint64_t flags);
    static ssize_t sread_call(fid_cq* queue, void* buffer, std::size_t count, const void* condition,
                              int timeout_ms);
    static ssize_t sreadfrom_call(fid_cq* queue, void* buffer, std::size_t count, fi_addr_t* sources,
                                  const void* condition, int timeout_ms);
    static int signal_call(fid_cq* queue);
    static const char* strerror_call(fid_cq* queue, int status, const void* data, char* buffer,
                                     std::size_t length);
    static fi_ops fid_ops_;
    static fi_ops_cq ops_;

    Domain& domain_;
    const fi_cq_format format_;
    const fi_wait_obj wait_object_;
    std::vector<Completion> ring_;
    std::size_t head_ = 0, size_ = 0;
    std::vector<Endpoint*> endpoints_;
    bool spoiled_ = false;
    bool broken_ = false;  ///< overrun: nothing sensible comes out any more
    bool armed_ = false, signaled_ = false;
    std::uint64_t armed_for_ = UINT64_MAX;
    int epoll_ = -1, timer_ = -1, event_ = -1;
};

}  // namespace simefa
