// Compile-time proof that the interface headers in use have the binary layout of the NIXL 1.5.1 host: sizes
// of all types, offsets of everything public, of these headers or of a real tree in their place. Include it
// in one source file.
#pragma once

#include <backend/backend_aux.h>
#include <backend/backend_engine.h>
#include <backend/backend_plugin.h>
#include <nixl_descriptors.h>

#include <cstddef>
#include <mutex>

// The types are not standard-layout; the compilers we build with define offsetof for them all the same.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace railyard::abi {

static_assert(sizeof(void*) == 8 && sizeof(std::string) == 32,
              "the interface is known for LP64 with libstdc++ only");
static_assert(NIXL_IN_PROG == 1 && NIXL_SUCCESS == 0 && NIXL_ERR_NO_TELEMETRY == -12);
static_assert(DRAM_SEG == 0 && VRAM_SEG == 1 && FILE_SEG == 4 && NIXL_READ == 0 && NIXL_WRITE == 1);
static_assert(sizeof(nixl_mem_t) == 4 && sizeof(nixl_status_t) == 4 && sizeof(nixl_xfer_op_t) == 4);
static_assert(sizeof(nixl_cost_t) == 4);

static_assert(sizeof(nixlBasicDesc) == 24);
static_assert(offsetof(nixlBasicDesc, addr) == 0);
static_assert(offsetof(nixlBasicDesc, len) == 8);
static_assert(offsetof(nixlBasicDesc, devId) == 16);
static_assert(sizeof(nixlMetaDesc) == 32 && offsetof(nixlMetaDesc, metadataP) == 24);
static_assert(sizeof(nixlBlobDesc) == 56 && offsetof(nixlBlobDesc, metaInfo) == 24);
static_assert(sizeof(nixlRemoteMetaDesc) == 64);
static_assert(sizeof(nixlDescList<nixlMetaDesc>) == 40);
static_assert(sizeof(nixlDescList<nixlBlobDesc>) == 40);

static_assert(sizeof(nixlBackendInitParams) == 96);
static_assert(offsetof(nixlBackendInitParams, localAgent) == 0);
static_assert(offsetof(nixlBackendInitParams, type) == 32);
static_assert(offsetof(nixlBackendInitParams, customParams) == 64);
static_assert(offsetof(nixlBackendInitParams, enableProgTh) == 72);
static_assert(offsetof(nixlBackendInitParams, pthrDelay) == 80);
static_assert(offsetof(nixlBackendInitParams, syncMode) == 88);

static_assert(sizeof(nixlBackendOptionalArgs) == 72);
static_assert(offsetof(nixlBackendOptionalArgs, notifMsg) == 0);
static_assert(offsetof(nixlBackendOptionalArgs, hasNotif) == 32);
static_assert(offsetof(nixlBackendOptionalArgs, customParam) == 40);
static_assert(sizeof(nixlBackendMD) == 16);
static_assert(sizeof(nixlBackendReqH) == 8);

static_assert(sizeof(nixlBackendPlugin) == 56);
static_assert(offsetof(nixlBackendPlugin, api_version) == 0);
static_assert(offsetof(nixlBackendPlugin, create_engine) == 8);
static_assert(offsetof(nixlBackendPlugin, destroy_engine) == 16);
static_assert(offsetof(nixlBackendPlugin, get_plugin_name) == 24);
static_assert(offsetof(nixlBackendPlugin, get_plugin_version) == 32);
static_assert(offsetof(nixlBackendPlugin, get_backend_options) == 40);
static_assert(offsetof(nixlBackendPlugin, get_backend_mems) == 48);

/// The host's engine has a lock in its middle: 40 bytes on x86-64, 48 on AArch64.
inline constexpr std::size_t behind_lock = 0x78 + sizeof(std::mutex);
static_assert(behind_lock == 0xa0 || behind_lock == 0xa8);
static_assert(sizeof(nixlBackendEngine) == behind_lock + 48);

/// Protected members, and where a derived class begins: behind the last byte of the base, inside its padding.
struct EngineProbe : nixlBackendEngine {
    using nixlBackendEngine::nixlBackendEngine;
    bool first_of_derived = false;
    static consteval bool matches() {
        return offsetof(EngineProbe, initErr) == behind_lock &&
               offsetof(EngineProbe, localAgent) == behind_lock + 8 &&
               offsetof(EngineProbe, enableTelemetry_) == behind_lock + 40 &&
               offsetof(EngineProbe, first_of_derived) == behind_lock + 41;
    }
};
static_assert(EngineProbe::matches());

#ifndef RAILYARD_FOREIGN_NIXL_HEADERS
/// Members that only our own headers let us look at.
struct EngineLayout {
    static_assert(offsetof(nixlBackendEngine, backendType) == 8);
    static_assert(offsetof(nixlBackendEngine, customParams) == 0x28);
    static_assert(offsetof(nixlBackendEngine, telemetryEvents) == 0x60);
    static_assert(offsetof(nixlBackendEngine, telemetryLock) == 0x78);
    static_assert(sizeof(EventVector) == sizeof(std::vector<int>));
    static_assert(offsetof(nixlBackendInitParams, enableTelemetry_) == 92);
};

struct ListProbe : nixlDescList<nixlMetaDesc> {
    static consteval bool matches() {
        return offsetof(ListProbe, type) == 8 && offsetof(ListProbe, descs) == 16;
    }
};
static_assert(ListProbe::matches());

struct MdProbe : nixlBackendMD {
    static consteval bool matches() { return offsetof(MdProbe, isPrivate) == 8; }
};
static_assert(MdProbe::matches());
#endif

}  // namespace railyard::abi

#pragma GCC diagnostic pop
