// The words of statuses; in the library and in the stub.
#include "railyard/flow.h"

const char* ryf_status_to_string(ryf_status status) {
    switch (status) {
        case RYF_OK:
            return "RYF_OK";
        case RYF_ERR_NOT_READY:
            return "RYF_ERR_NOT_READY";
        case RYF_ERR_TIMEOUT:
            return "RYF_ERR_TIMEOUT";
        case RYF_ERR_INVALID_ARG:
            return "RYF_ERR_INVALID_ARG";
        case RYF_ERR_INVALID_STATE:
            return "RYF_ERR_INVALID_STATE";
        case RYF_ERR_NOT_FOUND:
            return "RYF_ERR_NOT_FOUND";
        case RYF_ERR_EXISTS:
            return "RYF_ERR_EXISTS";
        case RYF_ERR_INTERRUPTED:
            return "RYF_ERR_INTERRUPTED";
        case RYF_ERR_NO_FABRIC:
            return "RYF_ERR_NO_FABRIC";
        case RYF_ERR_DISCONNECTED:
            return "RYF_ERR_DISCONNECTED";
        case RYF_ERR_UNSUPPORTED:
            return "RYF_ERR_UNSUPPORTED";
        case RYF_ERR_INTERNAL:
            return "RYF_ERR_INTERNAL";
    }
    return "an unknown ryf_status";
}
