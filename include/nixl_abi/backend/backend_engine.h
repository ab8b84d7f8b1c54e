// Base class of a backend engine (NIXL 1.5.1). The order of the virtual functions and the place of every
// member are the binary interface: the host calls through the former and reads the latter inline. Never
// reorder.
#pragma once

#include <chrono>
#include <mutex>
#include <new>
#include <string>

#include "../nixl_descriptors.h"
#include "../nixl_types.h"
#include "backend_aux.h"

struct nixlAgentOptionalArgs;

namespace railyard::abi {

/// Stands where the host keeps a std::vector of telemetry events, whose type we do not know. Always empty on
/// our side; the host may leave a buffer here, which is freed without looking into it.
class EventVector {
  public:
    EventVector() = default;
    EventVector(const EventVector&) = delete;
    EventVector& operator=(const EventVector&) = delete;
    ~EventVector() { ::operator delete(begin_); }

  private:
    void* begin_ = nullptr;
    [[maybe_unused]] void* end_ = nullptr;
    [[maybe_unused]] void* capacity_ = nullptr;
};

struct EngineLayout;

}  // namespace railyard::abi

class nixlBackendEngine {
  public:
    explicit nixlBackendEngine(const nixlBackendInitParams* init)
        : backendType(init->type),
          customParams(init->customParams != nullptr ? *init->customParams : nixl_b_params_t{}),
          localAgent(init->localAgent),
          enableTelemetry_(init->enableTelemetry_) {}
    nixlBackendEngine(const nixlBackendEngine&) = delete;
    nixlBackendEngine& operator=(const nixlBackendEngine&) = delete;

    const std::string& getType() const noexcept { return backendType; }
    const nixl_b_params_t& getCustomParams() const noexcept { return customParams; }
    /// True when construction failed; the host then only calls destroy_engine.
    bool getInitErr() const noexcept { return initErr; }

    virtual ~nixlBackendEngine() = default;

    virtual bool supportsRemote() const = 0;
    virtual bool supportsLocal() const = 0;
    virtual bool supportsNotif() const = 0;
    virtual nixl_mem_list_t getSupportedMems() const = 0;

    virtual nixl_status_t registerMem(const nixlBlobDesc& mem, const nixl_mem_t& nixl_mem,
                                      nixlBackendMD*& out) = 0;
    virtual nixl_status_t deregisterMem(nixlBackendMD* meta) = 0;
    virtual nixl_status_t connect(const std::string& remote_agent) = 0;
    virtual nixl_status_t disconnect(const std::string& remote_agent) = 0;
    virtual nixl_status_t unloadMD(nixlBackendMD* input) = 0;

    virtual nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                   const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                                   nixlBackendReqH*& handle, const nixl_opt_b_args_t* opt_args) const = 0;
    virtual nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                   const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                                   nixlBackendReqH*& handle, const nixl_opt_b_args_t* opt_args) const = 0;
    virtual nixl_status_t checkXfer(nixlBackendReqH* handle) const = 0;
    virtual nixl_status_t releaseReqH(nixlBackendReqH* handle) const = 0;

    virtual nixl_status_t prepMemView(const nixl_remote_meta_dlist_t&, void*&,
                                      const nixl_opt_b_args_t*) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual nixl_status_t prepMemView(const nixl_meta_dlist_t&, void*&, const nixl_opt_b_args_t*) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual void releaseMemView(void*) const {}

    virtual nixl_status_t getPublicData(const nixlBackendMD*, std::string&) const { return NIXL_ERR_BACKEND; }
    virtual nixl_status_t getConnInfo(std::string&) const { return NIXL_ERR_BACKEND; }
    virtual nixl_status_t loadRemoteConnInfo(const std::string& /*agent*/, const std::string& /*info*/) {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t loadRemoteMD(const nixlBlobDesc&, const nixl_mem_t&, const std::string& /*agent*/,
                                       nixlBackendMD*&) {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t loadLocalMD(nixlBackendMD*, nixlBackendMD*&) { return NIXL_ERR_BACKEND; }

    virtual nixl_status_t getNotifs(notif_list_t&) { return NIXL_ERR_BACKEND; }
    virtual nixl_status_t genNotif(const std::string& /*agent*/, const std::string& /*msg*/) const {
        return NIXL_ERR_BACKEND;
    }

    virtual nixl_status_t queryMem(const nixl_reg_dlist_t&, std::vector<nixl_query_resp_t>&) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual nixl_status_t estimateXferCost(const nixl_xfer_op_t&, const nixl_meta_dlist_t& /*local*/,
                                           const nixl_meta_dlist_t& /*remote*/, const std::string& /*agent*/,
                                           nixlBackendReqH* const& /*handle*/,
                                           std::chrono::microseconds& /*duration*/,
                                           std::chrono::microseconds& /*error margin*/, nixl_cost_t&,
                                           const nixlAgentOptionalArgs* = nullptr) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }

  private:
    friend struct railyard::abi::EngineLayout;

    std::string backendType;
    nixl_b_params_t customParams;
    railyard::abi::EventVector telemetryEvents;
    std::mutex telemetryLock;

  protected:
    bool initErr = false;
    const std::string localAgent;
    const bool enableTelemetry_;
};
