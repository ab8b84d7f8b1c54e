#include "fabric/fid.h"

#include "common/shortage.h"
#include "common/status.h"

namespace railyard::fabric {

void check(long rc, const char* call, std::string_view where) {
    if (rc >= 0) return;
    throw Error(Status::backend, std::string(call) + " failed on " + std::string(where) + ": " +
                                     fi_strerror(static_cast<int>(-rc)) + " (" + std::to_string(rc) + ")" +
                                     shortage());
}

}  // namespace railyard::fabric
