#include "common/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace railyard {
namespace {

bool membarrier(int command) noexcept {
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

bool has_process_barrier() noexcept {
    static const bool registered =
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    return registered;
}

void process_barrier() noexcept {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    // A sandbox that has come since. No processor keeps a write to itself for so long.
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
}

}  // namespace railyard
