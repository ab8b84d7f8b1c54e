#include "fabric/fi_log.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_prov.h>

#include <mutex>

#include "common/log.h"

namespace railyard::fabric {
namespace {

log::Level our_level(fi_log_level level) noexcept {
    switch (level) {
        case FI_LOG_WARN:
            return log::Level::warn;
        case FI_LOG_DEBUG:
            return log::Level::trace;
        default:
            return log::Level::debug;
    }
}

int is_enabled(const fi_provider*, fi_log_level level, fi_log_subsys, std::uint64_t) {
    return log::enabled(our_level(level)) ? 1 : 0;
}

int is_ready(const fi_provider* provider, fi_log_level level, fi_log_subsys subsystem, std::uint64_t flags,
             std::uint64_t*) {
    return is_enabled(provider, level, subsystem, flags);
}

void write_line(const fi_provider* provider, fi_log_level level, fi_log_subsys, const char* function,
                int line, const char* text) {
    const int length = static_cast<int>(__builtin_strcspn(text, "\n"));
    log::write(our_level(level), provider && provider->name ? provider->name : "libfabric", "%s:%d: %.*s",
               function, line, length, text);
}

}  // namespace

void route_libfabric_log() {
    static std::once_flag once;
    std::call_once(once, [] {
        // libfabric keeps both for the life of the process.
        static fi_ops_log operations{sizeof(fi_ops_log), is_enabled, is_ready, write_line};
        static fid_logging logging{};
        logging.ops = &operations;
        const int rc = fi_import_log(fi_version(), 0, &logging);
        if (rc != 0) RAILYARD_LOG(warn, "", "libfabric does not let its log be routed: %s", fi_strerror(-rc));
    });
}

}  // namespace railyard::fabric
