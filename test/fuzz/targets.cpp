#include "targets.h"

#include <cstdio>
#include <cstdlib>

namespace railyard::fuzz {

const std::map<std::string, Target>& targets() {
    static const std::map<std::string, Target> all{
        {"connection", fuzz_connection},
        {"memory", fuzz_memory},
        {"introduction", fuzz_introduction},
        {"acknowledgement", fuzz_acknowledgement},
        {"request", fuzz_request},
        {"answer", fuzz_answer},
        {"keys", fuzz_keys},
        {"peer_blob", fuzz_peer_blob},
        {"frame", fuzz_frame},
        {"fragments", fuzz_fragments},
        {"control", fuzz_control},
        {"flow_info", fuzz_flow_info},
        {"flow_board", fuzz_flow_board},
        {"eager", fuzz_eager},
        {"eager_read", fuzz_eager_read},
    };
    return all;
}

void require(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

}  // namespace railyard::fuzz
