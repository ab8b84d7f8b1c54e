#include "fabric/direct_access.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "common/log.h"
#include "common/shortage.h"
#include "common/status.h"
#include "fabric/endpoint_memory.h"
#include "fabric/peer_process.h"
#include "fabric/shm_names.h"

namespace railyard::fabric {
namespace {

bool may_access(int process) noexcept {
    // A read of nothing valid: the kernel checks the permission first, then the address.
    char byte = 0;
    const iovec here{&byte, 1};
    const iovec there{nullptr, 1};
    return process_vm_readv(process, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}

/// No other endpoint ever has one of our names: nobody will be there.
bool is_absent(const std::string& file) noexcept {
    return is_shm_file_of_ours(file) && access(("/dev/shm/" + file).c_str(), F_OK) != 0 && errno == ENOENT;
}

}  // namespace

bool may_access_process_of(std::string_view address) noexcept {
    try {
        return process_behind(address) == Seen::here && may_access(process_of(address));
    } catch (const std::exception&) {
        return false;
    }
}

bool lets_copy_directly(const std::string& ours, const std::string& theirs) {
    const std::string file(shared_memory_of(theirs));
    try {
        const Seen seen = process_behind(theirs);
        if (seen == Seen::here && may_access(process_of(theirs))) return true;
        if (is_absent(file)) {
            RAILYARD_LOG(
                warn, "shm",
                "there is no /dev/shm/%s: its process has ended, or is in a container that has a "
                "/dev/shm of its own, where shm does not reach it: let both have the same, or use tcp",
                file.c_str());
            return true;
        }
        EndpointMemory memory(ours);
        if (memory.seen()) {
            memory.forbid_copies();
        } else if (seen == Seen::elsewhere) {
            throw Error(Status::not_supported,
                        "the process of " + theirs.substr(0, theirs.find('\0')) +
                            " is not in our PID namespace, or has ended: this libfabric "
                            "would take another one for it, which has the same number "
                            "here: let both have the same PID namespace, or use tcp");
        }
    } catch (const std::system_error& error) {
        throw Error(Status::backend, std::string("the process of a peer cannot be looked at now: ") +
                                         error.what() + shortage());
    }
    return false;
}

bool copies_directly(const std::string& ours) {
    return !EndpointMemory(ours).copies_forbidden();
}

}  // namespace railyard::fabric
