// The words of statuses, and the version; in the library and in the stub.
#include <string_view>

#include "railyard/flow.h"
#include "railyard_version.h"

#define RYF_TEXT_OF(number) #number
#define RYF_DOTTED(major, minor, patch) RYF_TEXT_OF(major) "." RYF_TEXT_OF(minor) "." RYF_TEXT_OF(patch)
static_assert(RAILYARD_VERSION ==
                  std::string_view(RYF_DOTTED(RYF_VERSION_MAJOR, RYF_VERSION_MINOR, RYF_VERSION_PATCH)),
              "RYF_VERSION in railyard/flow.h is the project's version");

uint32_t ryf_version(void) {
    return RYF_VERSION;
}

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
