// The adapter between the host's backend interface and the engine: translates, catches, logs; owns no rules.
#pragma once

#include <backend/backend_engine.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "engine/engine.h"
#include "plugin/memory_table.h"
#include "stream/stream_transfers.h"

namespace railyard::plugin {

/// One backend of one agent. No call throws. The host may call from several threads, as Engine allows.
/// Destruction ends every thread of the engine; handles that the host has not given back die with it. A
/// forked child may destroy what it inherited, which touches nothing of the parent's, and do no more with it;
/// what it gives back on the way there is refused without a word at the usual log level.
class HostEngine final : public nixlBackendEngine {
  public:
    /// Throws Error (bad parameters, no usable rail); entry.cpp catches.
    explicit HostEngine(const nixlBackendInitParams& init);
    ~HostEngine() override;

    bool supportsRemote() const override { return true; }
    bool supportsLocal() const override { return true; }
    bool supportsNotif() const override { return true; }
    nixl_mem_list_t getSupportedMems() const override;

    nixl_status_t registerMem(const nixlBlobDesc& mem, const nixl_mem_t& type, nixlBackendMD*& out) override;
    nixl_status_t deregisterMem(nixlBackendMD* meta) override;
    nixl_status_t connect(const std::string& remote_agent) override;
    nixl_status_t disconnect(const std::string& remote_agent) override;
    nixl_status_t unloadMD(nixlBackendMD* input) override;

    /// `customParam`: empty, or a CUstream that the transfer's posts are ordered on (docs/streams.md).
    nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                           const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                           nixlBackendReqH*& handle, const nixl_opt_b_args_t* options) const override;
    nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                           const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                           nixlBackendReqH*& handle, const nixl_opt_b_args_t* options) const override;
    nixl_status_t checkXfer(nixlBackendReqH* handle) const override;
    nixl_status_t releaseReqH(nixlBackendReqH* handle) const override;

    nixl_status_t getPublicData(const nixlBackendMD* meta, std::string& out) const override;
    nixl_status_t getConnInfo(std::string& out) const override;
    nixl_status_t loadRemoteConnInfo(const std::string& remote_agent, const std::string& info) override;
    nixl_status_t loadRemoteMD(const nixlBlobDesc& mem, const nixl_mem_t& type,
                               const std::string& remote_agent, nixlBackendMD*& out) override;
    /// The returned handle is another object than `input`: the host gives it back with unloadMD and `input`
    /// with deregisterMem.
    nixl_status_t loadLocalMD(nixlBackendMD* input, nixlBackendMD*& out) override;

    /// Appends what has arrived.
    nixl_status_t getNotifs(notif_list_t& out) override;
    nixl_status_t genNotif(const std::string& remote_agent, const std::string& message) const override;

    /// For each descriptor the registered region around it ("type", "address", "length" in bytes), or
    /// nothing.
    nixl_status_t queryMem(const nixl_reg_dlist_t& descs, std::vector<nixl_query_resp_t>& out) const override;
    /// `method` is ANALYTICAL_BACKEND when measured by this engine, else cost_unknown.
    nixl_status_t estimateXferCost(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                   const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                                   nixlBackendReqH* const& handle, std::chrono::microseconds& duration,
                                   std::chrono::microseconds& error_margin, nixl_cost_t& method,
                                   const nixlAgentOptionalArgs* options) const override;

  private:
    template <class Body>
    nixl_status_t guarded_call(const char* name, Body&& body) const noexcept;
    /// For calls that a host makes as it ends, in a forked child as well.
    template <class Body>
    nixl_status_t guarded_return(const char* name, Body&& body) const noexcept;
    /// Throws Error{not_supported} for memory that is neither host nor GPU memory.
    static MemoryType memory_type(nixl_mem_t type, const char* what);
    /// Releases the transfer where it throws.
    void put_on_stream(Transfer& transfer, const nixl_blob_t& stream) const;
    std::shared_ptr<Registration> registered_region(const nixlBackendMD* meta) const;
    bool is_loaded_region(const nixlBackendMD* meta) const;

    const std::string agent_;
    const bool progress_thread_;
    MemoryTable memory_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<StreamTransfers> streams_;
    Mutex arrived_mutex_;
    std::vector<Notification> arrived_ ABSL_GUARDED_BY(arrived_mutex_);  ///< taken, not yet with the host
    std::atomic<bool> has_arrived_{false};                               ///< there may be some in `arrived_`
};

/// The host has no name for an estimate that nothing backs; it shows every value but ANALYTICAL_BACKEND as
/// unknown.
inline constexpr auto cost_unknown = static_cast<nixl_cost_t>(1);

}  // namespace railyard::plugin
