#include "provider/status.h"

#include <rdma/fi_errno.h>

namespace simefa {

int error_of(int status) noexcept {
    switch (status) {
        case status_ok:
            return 0;
        case status_flushed:
            return FI_ECANCELED;
        case status_internal:
        case 3:
        case status_bad_handle:
        case status_bad_local_key:
        case status_bad_remote_address:
            return FI_EINVAL;
        case status_bad_length:
        case status_remote_length:
            return FI_EMSGSIZE;
        case status_aborted:
        case status_unresponsive:
        case 4124:
        case status_handshake_failed:
            return FI_ECONNABORTED;
        case status_bad_queue_pair:
        case status_unknown_peer:
            return FI_ENOTCONN;
        case status_not_ready:
            return FI_ENORX;
        case 12:
            return FI_EREMOTEIO;
        case status_unreachable:
            return FI_EHOSTUNREACH;
        case status_post_refused:
            return FI_EOPNOTSUPP;
        default:
            return FI_EOTHER;
    }
}

const char* text_of(int status) noexcept {
    switch (status) {
        case status_ok:
            return "success";
        case status_flushed:
            return "flushed: the queue pair or the device went away";
        case status_internal:
            return "internal error of the queue pair";
        case status_bad_handle:
            return "invalid address handle";
        case status_bad_local_key:
            return "local key unknown, or the buffer is not inside its region";
        case status_bad_length:
            return "too long";
        case status_bad_remote_address:
            return "remote key unknown, or the range is not inside its region";
        case status_aborted:
            return "aborted by the peer";
        case status_bad_queue_pair:
            return "the peer has no such queue pair";
        case status_not_ready:
            return "the peer has no receive buffer";
        case status_remote_length:
            return "the peer's receive buffer is too short";
        case status_unresponsive:
            return "the peer answers no more";
        case status_unknown_peer:
            return "the peer does not know this endpoint's address";
        case status_unreachable:
            return "the peer has never answered";
        case status_feature_mismatch:
            return "the two sides disagree about a feature";
        case status_post_refused:
            return "what waited for a handshake cannot be posted";
        case status_handshake_failed:
            return "the peer did not answer the handshake";
        default:
            return "simulated error";
    }
}

}  // namespace simefa
