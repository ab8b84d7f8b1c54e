// Basic types of the host's plugin interface (NIXL 1.5.1): values are part of the binary interface.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

/// Kinds of memory segments.
enum nixl_mem_t { DRAM_SEG = 0, VRAM_SEG = 1, BLK_SEG = 2, OBJ_SEG = 3, FILE_SEG = 4 };

enum nixl_xfer_op_t { NIXL_READ = 0, NIXL_WRITE = 1 };

enum nixl_status_t {
    NIXL_IN_PROG = 1,
    NIXL_SUCCESS = 0,
    NIXL_ERR_NOT_POSTED = -1,
    NIXL_ERR_INVALID_PARAM = -2,
    NIXL_ERR_BACKEND = -3,
    NIXL_ERR_NOT_FOUND = -4,
    NIXL_ERR_MISMATCH = -5,
    NIXL_ERR_NOT_ALLOWED = -6,
    NIXL_ERR_REPOST_ACTIVE = -7,
    NIXL_ERR_UNKNOWN = -8,
    NIXL_ERR_NOT_SUPPORTED = -9,
    NIXL_ERR_REMOTE_DISCONNECT = -10,
    NIXL_ERR_CANCELED = -11,
    NIXL_ERR_NO_TELEMETRY = -12,
};

/// How the host's agent synchronises its own calls.
enum class nixl_thread_sync_t {
    NIXL_THREAD_SYNC_NONE = 0,
    NIXL_THREAD_SYNC_STRICT = 1,
    NIXL_THREAD_SYNC_RW = 2,
};

/// Where a cost estimate comes from. The host shows every value but this one as "unknown".
enum class nixl_cost_t { ANALYTICAL_BACKEND = 0 };

/// Bytes: may hold zeros.
using nixl_blob_t = std::string;
using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>;
/// Answer of queryMem for one descriptor: nothing when the backend does not know the memory.
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
/// Pairs of sender and message.
using notif_list_t = std::vector<std::pair<std::string, nixl_blob_t>>;
