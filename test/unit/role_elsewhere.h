// What another thread finds of a role.
#pragma once

#include <thread>

#include "common/thread_role.h"

namespace railyard {

/// It gets the role, and gives it back.
inline bool is_taken_elsewhere(ThreadRole& role) {
    bool got = false;
    std::thread([&] {
        got = role.try_acquire();
        if (got) role.release();
    }).join();
    return got;
}

}  // namespace railyard
