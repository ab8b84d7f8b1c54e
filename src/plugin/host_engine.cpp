#include "plugin/host_engine.h"

#include <optional>
#include <span>
#include <utility>

#include "common/spoken.h"
#include "manager/registration.h"
#include "plugin/edge.h"
#include "plugin/listed_regions.h"
#include "plugin/params_adapter.h"

namespace railyard::plugin {
namespace {

const char* memory_name(nixl_mem_t type) noexcept {
    switch (type) {
        case DRAM_SEG:
            return "host memory (DRAM)";
        case VRAM_SEG:
            return "GPU memory (VRAM)";
        case BLK_SEG:
            return "block devices (BLK)";
        case OBJ_SEG:
            return "object storage (OBJ)";
        case FILE_SEG:
            return "files (FILE)";
    }
    return "memory of an unknown type";
}

[[noreturn]] void refuse_handle(const nixlMetaDesc& desc, const char* side, std::size_t index) {
    throw Error(
        Status::invalid_param,
        std::string(side) + " descriptor " + std::to_string(index) +
            (desc.metadataP == nullptr ? " has no registration"
                                       : " has a registration that is no longer there: memory "
                                         "deregistered, or metadata unloaded, after the list was made"));
}

const MemoryHandle& handle_of(MemoryTable::Lookup& memory, const nixlMetaDesc& desc, const char* side,
                              std::size_t index) {
    const MemoryHandle* const handle = memory.find(desc.metadataP);
    if (handle == nullptr) refuse_handle(desc, side, index);
    return *handle;
}

void look_up(LocalRegions& listed, MemoryTable::Lookup& memory, const nixl_meta_dlist_t& list,
             MemoryType type) {
    for (const nixlMetaDesc& desc : list) {
        const MemoryHandle& handle = handle_of(memory, desc, "local", listed.index());
        if (handle.local == nullptr)
            throw Error(Status::invalid_param, "a local descriptor lies in remote memory");
        if ((handle.local->gpu != nullptr) != (type == MemoryType::device))
            throw Error(Status::invalid_param,
                        "local descriptor " + std::to_string(listed.index()) +
                            " was registered as another type of memory than its list has");
        listed.add(desc.addr, desc.len, handle.local);
    }
}

void look_up(RemoteRegions& listed, MemoryTable::Lookup& memory, const nixl_meta_dlist_t& list) {
    for (const nixlMetaDesc& desc : list) {
        const MemoryHandle& handle = handle_of(memory, desc, "remote", listed.index());
        if (handle.remote == nullptr)
            throw Error(Status::invalid_param, "a remote descriptor lies in local memory");
        listed.add(desc.addr, desc.len, handle.remote);
    }
}

Operation operation_of(nixl_xfer_op_t operation) {
    switch (operation) {
        case NIXL_READ:
            return Operation::read;
        case NIXL_WRITE:
            return Operation::write;
    }
    throw Error(Status::invalid_param, "unknown operation " + std::to_string(static_cast<int>(operation)));
}

// The host only carries a request handle around, so it is the engine's own handle under another name: the hot
// path saves a hop, and what the host never releases is still the engine's to free.
nixlBackendReqH* as_handle(Transfer* transfer) noexcept {
    return reinterpret_cast<nixlBackendReqH*>(transfer);
}

Transfer& transfer_of(nixlBackendReqH* handle) noexcept {
    return *reinterpret_cast<Transfer*>(handle);
}

}  // namespace

HostEngine::HostEngine(const nixlBackendInitParams& init)
    : nixlBackendEngine(&init),
      agent_(init.localAgent),
      progress_thread_(init.enableProgTh),
      engine_(std::make_unique<Engine>(engine_config(init))),
      streams_(std::make_unique<StreamTransfers>(*engine_)) {
    RAILYARD_LOG(info, agent_.c_str(), "engine open: provider %s, %s, progress thread %s",
                 spoken_provider(engine_->provider()).c_str(), counted(engine_->rail_count(), "rail").c_str(),
                 progress_thread_ ? "on" : "off");
}

HostEngine::~HostEngine() {
    if (!engine_->own_process()) {
        // Streams, and the driver that they need, are the parent's as well.
        leave_to_parent(streams_.release());
        return;
    }
    streams_->close();
    engine_.reset();  // transfers that are left refer to streams_
}

template <class Body>
nixl_status_t HostEngine::guarded_call(const char* name, Body&& body) const noexcept {
    return guarded(agent_.c_str(), name, [&] {
        engine_->require_own_process();  // before any lock: in a forked child it may be held for ever
        return body();
    });
}

template <class Body>
nixl_status_t HostEngine::guarded_return(const char* name, Body&& body) const noexcept {
    if (engine_->own_process()) return guarded_call(name, body);
    RAILYARD_LOG(debug, agent_.c_str(), "%s in a forked child: it stays with the process that made it", name);
    return NIXL_ERR_NOT_ALLOWED;
}

MemoryType HostEngine::memory_type(nixl_mem_t type, const char* what) {
    if (type == DRAM_SEG) return MemoryType::host;
    if (type == VRAM_SEG) return MemoryType::device;
    throw Error(Status::not_supported,
                std::string(what) +
                    ": this backend handles host memory (DRAM) and GPU memory (VRAM) only, not " +
                    memory_name(type));
}

std::shared_ptr<Registration> HostEngine::registered_region(const nixlBackendMD* meta) const {
    MemoryTable::Lookup memory(memory_);
    const MemoryHandle* const handle = memory.find(meta);
    if (handle == nullptr || handle->local == nullptr)
        throw Error(Status::invalid_param, "the handle is of no registered region of this engine");
    return handle->local;
}

bool HostEngine::is_loaded_region(const nixlBackendMD* meta) const {
    MemoryTable::Lookup memory(memory_);
    const MemoryHandle* const handle = memory.find(meta);
    return handle != nullptr && handle->remote != nullptr;
}

nixl_mem_list_t HostEngine::getSupportedMems() const {
    nixl_mem_list_t types;
    guarded(agent_.c_str(), "getSupportedMems", [&] {
        types.reserve(2);
        types.push_back(DRAM_SEG);
        if (engine_->takes_gpu_memory()) types.push_back(VRAM_SEG);
        return NIXL_SUCCESS;
    });
    return types;
}

nixl_status_t HostEngine::registerMem(const nixlBlobDesc& mem, const nixl_mem_t& type, nixlBackendMD*& out) {
    return guarded_call("registerMem", [&] {
        const MemoryType kind = memory_type(type, "region refused");
        const auto region = engine_->register_memory(mem.addr, mem.len, mem.devId, kind);
        try {
            out = memory_.adopt(std::make_unique<MemoryHandle>(region, mem.addr, mem.len, kind));
        } catch (...) {
            engine_->deregister_memory(region);  // the host has no handle to do it with
            throw;
        }
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::deregisterMem(nixlBackendMD* meta) {
    return guarded_return("deregisterMem", [&] {
        const std::shared_ptr<Registration> region = registered_region(meta);
        memory_.withdraw(meta);
        // Where it is refused the handle stays: the host may ask again, however long after.
        engine_->deregister_memory(region);
        memory_.remove(meta);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::connect(const std::string& remote_agent) {
    return guarded_call("connect", [&] {
        engine_->connect(remote_agent);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::disconnect(const std::string& remote_agent) {
    return guarded_return("disconnect", [&] {
        engine_->disconnect(remote_agent);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::unloadMD(nixlBackendMD* input) {
    return guarded_return("unloadMD", [&] {
        if (!is_loaded_region(input) || memory_.remove(input) == nullptr)
            throw Error(Status::invalid_param, "the handle is of no loaded region of this engine");
        return NIXL_SUCCESS;
    });
}

void HostEngine::put_on_stream(Transfer& transfer, const nixl_blob_t& stream) const {
    try {
        streams_->attach(transfer, stream);
    } catch (...) {
        engine_->release(&transfer);
        throw;
    }
}

nixl_status_t HostEngine::prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                   const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                                   nixlBackendReqH*& handle, const nixl_opt_b_args_t* options) const {
    return guarded_call("prepXfer", [&] {
        const MemoryType type = memory_type(local.getType(), "local descriptors refused");
        if (type == MemoryType::device && !engine_->has_gpus())
            throw Error(Status::not_supported, "local descriptors refused: GPU memory, and there is no GPU");
        memory_type(remote.getType(), "remote descriptors refused");
        std::optional<std::string_view> notification;
        if (options != nullptr && options->hasNotif) notification = options->notifMsg;
        LocalRegions from(static_cast<std::size_t>(local.descCount()));
        RemoteRegions to(static_cast<std::size_t>(remote.descCount()));
        {
            MemoryTable::Lookup memory(memory_);
            look_up(from, memory, local, type);
            look_up(to, memory, remote);
        }
        // Without the table, which others wait for: it may wait for a GPU.
        Transfer* const transfer = engine_->prepare(operation_of(operation), from.descriptors(),
                                                    to.descriptors(), remote_agent, notification);
        if (options != nullptr && !options->customParam.empty())
            put_on_stream(*transfer, options->customParam);
        handle = as_handle(transfer);
        return NIXL_SUCCESS;
    });
}

// Hot path: no allocation, nothing that throws.
nixl_status_t HostEngine::postXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&, const nixl_meta_dlist_t&,
                                   const std::string&, nixlBackendReqH*& handle,
                                   const nixl_opt_b_args_t* options) const {
    if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
    Transfer& transfer = transfer_of(handle);
    if (options == nullptr) return to_nixl(engine_->post(transfer));
    // The host names a message that is to be sent again at each post: where it names none, there is none.
    if (!options->hasNotif) return to_nixl(engine_->post_without_notification(transfer));
    return to_nixl(engine_->post(transfer, &options->notifMsg));
}

nixl_status_t HostEngine::checkXfer(nixlBackendReqH* handle) const {
    if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
    return to_nixl(engine_->poll(transfer_of(handle)));
}

nixl_status_t HostEngine::releaseReqH(nixlBackendReqH* handle) const {
    if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
    engine_->release(&transfer_of(handle));
    return NIXL_SUCCESS;
}

nixl_status_t HostEngine::getPublicData(const nixlBackendMD* meta, std::string& out) const {
    return guarded_call("getPublicData", [&] {
        const std::shared_ptr<Registration> region = registered_region(meta);
        out = engine_->memory_metadata(*region);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::getConnInfo(std::string& out) const {
    return guarded_call("getConnInfo", [&] {
        out = engine_->connection_info();
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::loadRemoteConnInfo(const std::string& remote_agent, const std::string& info) {
    return guarded_call("loadRemoteConnInfo", [&] {
        engine_->load_connection_info(remote_agent, info);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::loadRemoteMD(const nixlBlobDesc& mem, const nixl_mem_t& type,
                                       const std::string& remote_agent, nixlBackendMD*& out) {
    return guarded_call("loadRemoteMD", [&] {
        memory_type(type, "remote region refused");
        auto region = engine_->load_remote_memory(remote_agent, mem.metaInfo, mem.addr, mem.len);
        out = memory_.adopt(std::make_unique<MemoryHandle>(std::move(region)));
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::loadLocalMD(nixlBackendMD* input, nixlBackendMD*& out) {
    return guarded_call("loadLocalMD", [&] {
        const std::shared_ptr<Registration> region = registered_region(input);
        out = memory_.adopt(std::make_unique<MemoryHandle>(engine_->local_as_remote(region)));
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::getNotifs(notif_list_t& out) {
    return guarded_call("getNotifs", [&] {
        if (!engine_->look_for_notifications() && !has_arrived_.load(std::memory_order_relaxed))
            return NIXL_SUCCESS;
        const MutexLock lock(arrived_mutex_);
        has_arrived_.store(true, std::memory_order_relaxed);
        engine_->take_notifications(arrived_);
        out.reserve(out.size() + arrived_.size());  // may throw: nothing is lost, arrived_ keeps them
        for (Notification& notification : arrived_)
            out.emplace_back(std::move(notification.agent), std::move(notification.message));
        arrived_.clear();
        has_arrived_.store(false, std::memory_order_relaxed);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::genNotif(const std::string& remote_agent, const std::string& message) const {
    return guarded_call("genNotif", [&] {
        engine_->send_notification(remote_agent, message);
        if (!progress_thread_) engine_->progress();
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::queryMem(const nixl_reg_dlist_t& descs, std::vector<nixl_query_resp_t>& out) const {
    return guarded_call("queryMem", [&] {
        const MemoryType type = memory_type(descs.getType(), "query refused");
        std::vector<nixl_query_resp_t> answers;
        answers.reserve(static_cast<std::size_t>(descs.descCount()));
        for (const nixlBlobDesc& desc : descs) {
            const auto region = memory_.region_around({desc.addr, desc.len, type});
            nixl_query_resp_t& answer = answers.emplace_back();
            if (!region) continue;
            answer = nixl_b_params_t{{"type", type == MemoryType::host ? "dram" : "vram"},
                                     {"address", std::to_string(region->address)},
                                     {"length", std::to_string(region->length)}};
        }
        out = std::move(answers);
        return NIXL_SUCCESS;
    });
}

nixl_status_t HostEngine::estimateXferCost(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                                           const nixl_meta_dlist_t&, const std::string& remote_agent,
                                           nixlBackendReqH* const& handle,
                                           std::chrono::microseconds& duration,
                                           std::chrono::microseconds& error_margin, nixl_cost_t& method,
                                           const nixlAgentOptionalArgs*) const {
    if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
    if (!engine_->own_process()) return NIXL_ERR_NOT_ALLOWED;
    const CostEstimate estimate = engine_->estimate(transfer_of(handle));
    duration = estimate.duration;
    error_margin = estimate.error_margin;
    method = estimate.measured ? nixl_cost_t::ANALYTICAL_BACKEND : cost_unknown;
    if (!estimate.measured)
        RAILYARD_LOG(info, agent_.c_str(), "estimateXferCost to %s: nothing measured yet, %lld us is a guess",
                     remote_agent.c_str(), static_cast<long long>(estimate.duration.count()));
    return NIXL_SUCCESS;
}

}  // namespace railyard::plugin
