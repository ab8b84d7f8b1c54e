#include "fabric/fid.h"

#include "common/shortage.h"
#include "common/status.h"

namespace railyard::fabric {

void check(long rc, const char* call, std::string_view where) {
    if (rc >= 0) return;
    const std::string text = std::string(call) + " failed on " + std::string(where) + ": " +
                             fi_strerror(static_cast<int>(-rc)) + " (" + std::to_string(rc) + ")" +
                             shortage();
    if (rc == -FI_ENODEV || rc == -FI_EIO) throw DeviceGone(Status::backend, text);
    throw Error(Status::backend, text);
}

}  // namespace railyard::fabric
