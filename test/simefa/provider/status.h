// How the device says that an operation went wrong.
#pragma once

namespace simefa {

/// Values of prov_errno: the device's completion status, from 4096 on the provider's own.
enum Status : int {
    status_ok = 0,
    status_flushed = 1,
    status_internal = 2,
    status_bad_handle = 4,
    status_bad_local_key = 5,
    status_bad_length = 6,
    status_bad_remote_address = 7,
    status_aborted = 8,
    status_bad_queue_pair = 9,
    status_not_ready = 10,
    status_remote_length = 11,
    status_unresponsive = 13,
    status_unknown_peer = 14,
    status_unreachable = 15,
    status_feature_mismatch = 18,
    status_post_refused = 4100,
    status_handshake_failed = 4126,
};

/// The libfabric error (positive) that goes with it.
[[nodiscard]] int error_of(int status) noexcept;
/// A sentence for fi_cq_strerror.
[[nodiscard]] const char* text_of(int status) noexcept;

}  // namespace simefa
