#include "manager/remote_share.h"

#include "common/log.h"
#include "manager/gpu_path.h"

namespace railyard {

std::optional<std::uint64_t> RemoteShare::offset_for(GpuPath& gpu, bool own_process,
                                                     const std::string& agent) {
    if (own_process) return 0;
    const MutexLock lock(mutex_);
    const auto [at, added] = imports_.try_emplace(&gpu);
    if (added) {
        std::string why;
        try {
            at->second = gpu.imports().open(gpu.gpu().context(), allocation_, why);
        } catch (const Error& error) {
            why = error.what();
        }
        if (!at->second)
            RAILYARD_LOG(info, agent.c_str(),
                         "its GPU memory is not copied by our GPU %d, but goes the usual way: %s",
                         gpu.gpu().ordinal(), why.c_str());
    }
    if (!at->second) return std::nullopt;
    return at->second->address() - allocation_.start;
}

}  // namespace railyard
