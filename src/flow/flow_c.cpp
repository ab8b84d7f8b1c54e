// The C API: arguments are looked at, and handed on.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fork_watch.h"
#include "flow/config.h"
#include "flow/edge.h"
#include "flow/initiator.h"
#include "flow/target.h"

namespace flow = railyard::flow;
using flow::guarded;
using flow::guarded_wait;
using flow::Outcome;
using flow::refuse;
using flow::require;

struct ryf_instance {};
struct ryf_regions {
    std::vector<flow::Region> list;
};
/// What is set up once, while other threads may ask whether it is.
template <class Flow>
struct ryf_handle {
    /// A child leaves it as it is: a thread of the parent may have been in the middle of a call.
    ~ryf_handle() {
        Flow* const owned = flow.load(std::memory_order_acquire);
        if (owned && !owned->own_process()) {
            railyard::leave_to_parent(owned);
        } else {
            delete owned;
        }
    }
    std::atomic<std::uint32_t> setup{0};  ///< SetupTurn's
    std::atomic<Flow*> flow{nullptr};     ///< owned; released by set_up_now(), for set_up()
};
struct ryf_target : ryf_handle<flow::Target> {};
struct ryf_initiator : ryf_handle<flow::Initiator> {};
struct ryf_target_info {
    flow::TargetInfo info;
};

namespace {

ryf_status to_status(Outcome outcome) {
    switch (outcome) {
        case Outcome::ok:
            return RYF_OK;
        case Outcome::not_ready:
            return RYF_ERR_NOT_READY;
        case Outcome::timeout:
            return RYF_ERR_TIMEOUT;
        case Outcome::interrupted:
            return RYF_ERR_INTERRUPTED;
        case Outcome::disconnected:
            return RYF_ERR_DISCONNECTED;
        case Outcome::failed:
            break;
    }
    return RYF_ERR_INTERNAL;
}

/// What is behind a handle that has been set up, in the process that did so.
template <class Flow>
Flow& set_up(ryf_handle<Flow>* handle, const char* name) {
    require(handle, name);
    Flow* const flow = handle->flow.load(std::memory_order_acquire);
    if (!flow) refuse(RYF_ERR_INVALID_STATE, std::string(name) + " has not been set up");
    flow->require_own_process();
    return *flow;
}

/// For one thread at a time to set a handle up. A child does not wait for a thread of its parent, which is
/// not there to go on. After watch_forks().
class SetupTurn {
  public:
    /// Throws Refusal.
    SetupTurn(std::atomic<std::uint32_t>& turn, const char* name) : turn_(turn) {
        const std::uint32_t own = railyard::fork_generation() + 1;
        std::uint32_t holder = 0;
        while (!turn_.compare_exchange_strong(holder, own, std::memory_order_acquire)) {
            if (holder != own)
                refuse(RYF_ERR_INVALID_STATE,
                       std::string(name) + " was being set up by the parent of this process at the fork");
            turn_.wait(std::exchange(holder, 0), std::memory_order_relaxed);
        }
    }
    ~SetupTurn() {
        turn_.store(0, std::memory_order_release);
        turn_.notify_all();
    }
    SetupTurn(const SetupTurn&) = delete;
    SetupTurn& operator=(const SetupTurn&) = delete;

  private:
    std::atomic<std::uint32_t>& turn_;  ///< 0: nobody's; else the fork_generation() of its process, plus one
};

/// `look` sees it before anybody else, and may throw: then it goes, and the handle is not set up.
template <class Flow, class Look>
void set_up_now(ryf_handle<Flow>& handle, const ryf_config& config, const char* name, Look&& look) {
    const ryf_regions& regions = require(config.regions, "config->regions");
    railyard::watch_forks();
    const SetupTurn turn(handle.setup, name);
    if (handle.flow.load(std::memory_order_relaxed))
        refuse(RYF_ERR_INVALID_STATE, std::string(name) + " has been set up already");
    auto made = std::make_unique<Flow>(flow::to_side_config(config, regions.list));
    look(*made);
    handle.flow.store(made.release(), std::memory_order_release);
}

/// The two-call way: `found` into `out`, which has room for `*count`.
template <class Item>
ryf_status hand_out(const std::vector<Item>& found, Item* out, size_t& count) {
    const size_t room = std::exchange(count, found.size());
    if (!out) return RYF_OK;
    std::copy_n(found.begin(), std::min(room, found.size()), out);
    if (room < found.size())
        refuse(RYF_ERR_INVALID_ARG,
               "room for " + std::to_string(room) + ", and there are " + std::to_string(found.size()));
    return RYF_OK;
}

/// The same with a text, and the NUL behind it.
ryf_status hand_out(const std::string& found, char* out, size_t& size) {
    const size_t room = std::exchange(size, found.size() + 1);
    if (!out) return RYF_OK;
    if (room <= found.size())
        refuse(RYF_ERR_INVALID_ARG,
               "room for " + std::to_string(room) + " bytes, " + std::to_string(size) + " are needed");
    std::memcpy(out, found.c_str(), found.size() + 1);
    return RYF_OK;
}

/// A failing outcome with its words.
ryf_status told(const char* call, Outcome outcome, const std::string& what) {
    if (outcome == Outcome::disconnected || outcome == Outcome::failed)
        flow::set_last_error(call, what.c_str());
    return to_status(outcome);
}

}  // namespace

ryf_status ryf_instance_create(ryf_instance** instance) {
    return guarded(__func__, [&] {
        ryf_instance*& out = require(instance, "instance");
        out = new ryf_instance;
        return RYF_OK;
    });
}

ryf_status ryf_instance_destroy(ryf_instance* instance) {
    delete instance;
    return RYF_OK;
}

ryf_status ryf_instance_interfaces(ryf_instance* instance, ryf_provider provider, ryf_interface* interfaces,
                                   size_t* count) {
    return guarded_wait(__func__, [&] {
        require(instance, "instance");
        size_t& room = require(count, "count");
        try {
            return hand_out(flow::list_interfaces(provider), interfaces, room);
        } catch (const flow::NoFabric&) {
            room = 0;
            throw;
        }
    });
}

ryf_status ryf_regions_create(const ryf_region* regions, size_t count, ryf_regions** list) {
    return guarded(__func__, [&] {
        ryf_regions*& out = require(list, "list");
        require(regions, "regions");
        out = new ryf_regions{flow::to_regions(regions, count)};
        return RYF_OK;
    });
}

ryf_status ryf_regions_destroy(ryf_regions* list) {
    delete list;
    return RYF_OK;
}

ryf_status ryf_target_create(ryf_instance* instance, ryf_target** target) {
    return guarded(__func__, [&] {
        require(instance, "instance");
        ryf_target*& out = require(target, "target");
        out = new ryf_target;
        return RYF_OK;
    });
}

ryf_status ryf_target_setup(ryf_target* target, const ryf_config* config, ryf_target_info** info) {
    return guarded_wait(__func__, [&] {
        ryf_target& handle = require(target, "target");
        ryf_target_info*& out = require(info, "info");
        auto result = std::make_unique<ryf_target_info>();
        set_up_now(handle, require(config, "config"), "target",
                   [&](const flow::Target& made) { result->info = made.info(); });
        out = result.release();
        return RYF_OK;
    });
}

namespace {

ryf_status give(Outcome outcome, const flow::GrainBoard::Arrived& arrived, ryf_grain& grain) {
    if (outcome == Outcome::ok) grain = {arrived.index, arrived.source, arrived.round};
    return to_status(outcome);
}

}  // namespace

ryf_status ryf_target_try_new_grain(ryf_target* target, ryf_grain* grain) {
    return guarded(__func__, [&] {
        flow::GrainBoard::Arrived arrived;
        ryf_grain& out = require(grain, "grain");
        return give(set_up(target, "target").try_new_grain(arrived), arrived, out);
    });
}

ryf_status ryf_target_wait_for_new_grain(ryf_target* target, ryf_grain* grain, uint32_t timeout_ms) {
    return guarded_wait(__func__, [&] {
        flow::GrainBoard::Arrived arrived;
        ryf_grain& out = require(grain, "grain");
        return give(set_up(target, "target").wait_for_new_grain(arrived, timeout_ms), arrived, out);
    });
}

ryf_status ryf_target_sources(ryf_target* target, ryf_source* sources, size_t* count) {
    return guarded_wait(__func__, [&] {
        size_t& room = require(count, "count");
        std::vector<ryf_source> list;
        for (const flow::SourceReport& report : set_up(target, "target").sources()) {
            ryf_source source{};
            source.id = report.id;
            source.connected = report.connected;
            std::snprintf(source.name, sizeof(source.name), "%s", report.name.c_str());
            source.grains = report.counters.grains;
            source.lost = report.counters.lost;
            source.overwritten = report.counters.overwritten;
            list.push_back(source);
        }
        return hand_out(list, sources, room);
    });
}

ryf_status ryf_target_fd(ryf_target* target, int* fd) {
    return guarded(__func__, [&] {
        int& out = require(fd, "fd");
        out = set_up(target, "target").descriptor();
        return RYF_OK;
    });
}

ryf_status ryf_target_destroy(ryf_target* target) {
    return guarded_wait(__func__, [&] {
        delete target;
        return RYF_OK;
    });
}

ryf_status ryf_initiator_create(ryf_instance* instance, ryf_initiator** initiator) {
    return guarded(__func__, [&] {
        require(instance, "instance");
        ryf_initiator*& out = require(initiator, "initiator");
        out = new ryf_initiator;
        return RYF_OK;
    });
}

ryf_status ryf_initiator_setup(ryf_initiator* initiator, const ryf_config* config) {
    return guarded_wait(__func__, [&] {
        set_up_now(require(initiator, "initiator"), require(config, "config"), "initiator",
                   [](const flow::Initiator&) {});
        return RYF_OK;
    });
}

ryf_status ryf_initiator_add_target(ryf_initiator* initiator, const ryf_target_info* info) {
    return guarded_wait(__func__, [&] {
        const flow::TargetInfo& target = require(info, "info").info;
        set_up(initiator, "initiator").add_target(target);
        return RYF_OK;
    });
}

ryf_status ryf_initiator_remove_target(ryf_initiator* initiator, const ryf_target_info* info) {
    return guarded_wait(__func__, [&] {
        const flow::TargetInfo& target = require(info, "info").info;
        if (!set_up(initiator, "initiator").remove_target(target))
            refuse(RYF_ERR_NOT_FOUND, "target " + target.id() + " has not been added, or is gone");
        return RYF_OK;
    });
}

ryf_status ryf_initiator_targets(ryf_initiator* initiator, ryf_target_report* targets, size_t* count) {
    return guarded(__func__, [&] {
        size_t& room = require(count, "count");
        std::vector<ryf_target_report> list;
        for (const flow::TargetReport& report : set_up(initiator, "initiator").targets())
            list.push_back(flow::to_report(report));
        return hand_out(list, targets, room);
    });
}

ryf_status ryf_initiator_transfer_grain(ryf_initiator* initiator, uint32_t index) {
    return guarded(__func__, [&] {
        return to_status(set_up(initiator, "initiator").transfer(index, flow::whole_grain));
    });
}

ryf_status ryf_initiator_transfer_slices(ryf_initiator* initiator, uint32_t index, uint32_t first,
                                         uint32_t last) {
    return guarded(__func__, [&] {
        if (first > last || last == flow::whole_grain.last)
            refuse(RYF_ERR_INVALID_ARG, "slices " + std::to_string(first) + " to " + std::to_string(last));
        return to_status(set_up(initiator, "initiator").transfer(index, {first, last}));
    });
}

ryf_status ryf_initiator_grain_ready(ryf_initiator* initiator, uint32_t index) {
    return guarded(__func__, [&] { return to_status(set_up(initiator, "initiator").grain_ready(index)); });
}

ryf_status ryf_initiator_make_progress(ryf_initiator* initiator) {
    const char* const name = __func__;
    return guarded(name, [&] {
        std::string what;
        return told(name, set_up(initiator, "initiator").make_progress(what), what);
    });
}

ryf_status ryf_initiator_make_progress_blocking(ryf_initiator* initiator, uint32_t timeout_ms) {
    const char* const name = __func__;
    return guarded_wait(name, [&] {
        std::string what;
        return told(name, set_up(initiator, "initiator").make_progress(timeout_ms, what), what);
    });
}

ryf_status ryf_initiator_destroy(ryf_initiator* initiator) {
    return guarded_wait(__func__, [&] {
        delete initiator;
        return RYF_OK;
    });
}

ryf_status ryf_target_info_to_string(const ryf_target_info* info, char* text, size_t* size) {
    return guarded(__func__, [&] {
        size_t& room = require(size, "size");
        return hand_out(flow::to_json(require(info, "info").info), text, room);
    });
}

ryf_status ryf_target_info_id(const ryf_target_info* info, char* text, size_t* size) {
    return guarded(__func__, [&] {
        size_t& room = require(size, "size");
        return hand_out(require(info, "info").info.id(), text, room);
    });
}

ryf_status ryf_target_info_from_string(const char* text, ryf_target_info** info) {
    return guarded(__func__, [&] {
        require(text, "text");
        ryf_target_info*& out = require(info, "info");
        out = new ryf_target_info{flow::target_info_from_json(text)};
        return RYF_OK;
    });
}

ryf_status ryf_target_info_free(ryf_target_info* info) {
    delete info;
    return RYF_OK;
}

const char* ryf_last_error(void) {
    return flow::last_error();
}
