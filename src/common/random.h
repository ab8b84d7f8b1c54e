// Unpredictable numbers for nonces and memory keys.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/status.h"

namespace railyard {

/// 64 random bits from the kernel. Throws Error{backend} where the kernel has none to give.
inline std::uint64_t random_u64() {
    std::uint64_t value = 0;
    for (;;) {
        ssize_t got = getrandom(&value, sizeof(value), 0);
        if (got == static_cast<ssize_t>(sizeof(value))) return value;
        if (got < 0 && errno != EINTR) {
            throw Error(Status::backend, std::string("getrandom failed: ") + std::strerror(errno));
        }
    }
}

}  // namespace railyard
