// One NIC opened by the application: the lock, the registered memory, the objects on it.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "provider/info.h"
#include "provider/nic.h"
#include "provider/region_table.h"
#include "shared/mapped_file.h"

namespace simefa {

class CompletionQueue;
class EventQueue;
class Fabric;

/// One lock guards the domain and everything opened on it: endpoints, queues, vectors. Registering memory and
/// the data path take it; opening and closing objects take it where they change lists. Nothing under it waits
/// for another domain's lock.
class Domain : public fid_domain {
  public:
    static int open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);
    static Domain* from(::fid* handle) noexcept;

    [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }
    [[nodiscard]] Nic& nic() noexcept { return nic_; }
    [[nodiscard]] RegionTable& regions() noexcept { return regions_; }
    [[nodiscard]] DomainRecord& record() const noexcept { return record_->as<DomainRecord>(); }
    [[nodiscard]] const std::string& file() const noexcept { return file_; }
    [[nodiscard]] FabricKind kind() const noexcept { return kind_; }
    [[nodiscard]] std::uint32_t api_version() const noexcept { return api_version_; }
    /// Opened with FI_HMEM.
    [[nodiscard]] bool gpu_memory() const noexcept { return gpu_memory_; }
    /// Opened with FI_LOCAL_COMM: the real fabric efa has shm beside it.
    [[nodiscard]] bool shm() const noexcept { return shm_; }
    [[nodiscard]] EventQueue* event_queue() const noexcept { return event_queue_; }

    void attach(CompletionQueue& queue);
    void detach(CompletionQueue& queue) noexcept;
    /// Objects that must be closed before the domain.
    void add_child() noexcept { ++children_; }
    void remove_child() noexcept { --children_; }
    /// Drives all its queues: the thread of SIMEFA_THREADED.
    void progress() noexcept;

  private:
    Domain(Fabric& fabric, const NicDescription& nic, const fi_info& info, void* context_of_user);
    ~Domain();

    static int close_fid(::fid* handle);
    static int bind(::fid* handle, ::fid* other, std::uint64_t flags);
    static fi_ops fid_ops_;
    static fi_ops_domain ops_;

    mutable std::mutex mutex_;
    Fabric& fabric_;
    const FabricKind kind_;
    const std::uint32_t api_version_;
    const bool gpu_memory_, shm_;
    Nic nic_;
    std::string file_;
    std::shared_ptr<MappedFile> record_;
    RegionTable regions_;
    std::vector<CompletionQueue*> queues_;
    EventQueue* event_queue_ = nullptr;
    std::atomic<std::size_t> children_{0};
};

}  // namespace simefa
