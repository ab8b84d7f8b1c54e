// Small types that pass between host and backend: creation parameters, handles, per-call options
// (NIXL 1.5.1).
#pragma once

#include <cstdint>
#include <string>

#include "../nixl_types.h"

/// What the host hands to create_engine. Everything it points to lives until create_engine returns.
class nixlBackendInitParams {
  public:
    std::string localAgent;
    std::string type;  ///< the backend's name as the user gave it
    nixl_b_params_t* customParams = nullptr;
    bool enableProgTh = false;
    std::uint64_t pthrDelay = 0;  ///< microseconds
    nixl_thread_sync_t syncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE;
    bool enableTelemetry_ = false;
};

/// Base of a backend's handle of a transfer; opaque to the host.
class nixlBackendReqH {
  public:
    nixlBackendReqH() = default;
    nixlBackendReqH(const nixlBackendReqH&) = delete;
    nixlBackendReqH& operator=(const nixlBackendReqH&) = delete;
    virtual ~nixlBackendReqH() = default;
};

/// Base of a backend's handle of registered or loaded memory; opaque to the host.
class nixlBackendMD {
  public:
    explicit nixlBackendMD(bool is_private) : isPrivate(is_private) {}
    nixlBackendMD(const nixlBackendMD&) = delete;
    nixlBackendMD& operator=(const nixlBackendMD&) = delete;
    virtual ~nixlBackendMD() = default;

  protected:
    bool isPrivate;  ///< true: for local use; false: made from what a peer published
};

/// Options of one call of prepXfer or postXfer.
class nixlBackendOptionalArgs {
  public:
    nixl_blob_t notifMsg;
    bool hasNotif = false;
    nixl_blob_t customParam;
};

using nixl_opt_b_args_t = nixlBackendOptionalArgs;
