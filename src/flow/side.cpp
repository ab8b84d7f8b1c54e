#include "flow/side.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/random.h"
#include "fabric/info.h"

namespace railyard::flow {
namespace {

std::string unique_name(const char* role) {
    char text[64];
    std::snprintf(text, sizeof(text), "flow-%s-%016llx", role, static_cast<unsigned long long>(random_u64()));
    return text;
}

/// Of what may be meant, the first that has devices; the environment may know better. Throws NoFabric.
Params choose_params(const SideConfig& config) {
    ParamMap params{{"devices", config.devices}};
    params["rails"] = std::to_string(config.rails);
    params["rails_per_device"] = std::to_string(config.rails_per_device);
    for (std::size_t i = 0;; ++i) {
        params["provider"] = config.providers.at(i);
        Params parsed = Params::parse(params);
        parsed.local_rail = "off";  // it carries no immediate data, and nothing else is sent
        const fabric::DeviceFilter filter = fabric::parse_device_filter(parsed.devices);
        try {
            static_cast<void>(fabric::discover(parsed.provider, filter, false, fabric::Absent::untold));
            return parsed;
        } catch (const Error& error) {
            if (i + 1 == config.providers.size()) throw NoFabric(error.status(), error.what());
        }
    }
}

EngineConfig engine_config(const char* role, const SideConfig& config) {
    EngineConfig result;
    result.agent_name = unique_name(role);
    result.params = choose_params(config);
    apply_log_level(result.params);
    return result;
}

}  // namespace

Side::Side(const char* role, const SideConfig& config)
    : engine_(std::make_unique<Engine>(engine_config(role, config))),
      length_(config.regions.front().length),
      bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (bell_ < 0) throw Error(Status::backend, std::string("eventfd failed: ") + std::strerror(errno));
    try {
        for (const Region& region : config.regions)
            regions_.push_back(
                engine_->register_memory(region.address, region.length, region.device, region.type));
    } catch (...) {
        close(bell_);
        throw;
    }
}

Side::~Side() {
    engine_.reset();
    close(bell_);
    if (const int descriptor = descriptor_.load(); descriptor >= 0) close(descriptor);
}

void Side::ring() noexcept {
    const std::uint64_t one = 1;
    const std::uint32_t sleepers = sleepers_.load(std::memory_order_acquire);
    // However many grains come, until somebody has found none: one call of the kernel.
    if (sleepers >= with_descriptor && !rung_.exchange(true, std::memory_order_acq_rel)) {
        [[maybe_unused]] const ssize_t written =
            write(descriptor_.load(std::memory_order_acquire), &one, sizeof(one));
    }
    if (sleepers % with_descriptor != 0) {
        [[maybe_unused]] const ssize_t written = write(bell_, &one, sizeof(one));
    }
}

int Side::descriptor() {
    const int known = descriptor_.load(std::memory_order_acquire);
    if (known >= 0) return known;
    const int made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made < 0) throw Error(Status::backend, std::string("eventfd failed: ") + std::strerror(errno));
    int none = -1;
    if (!descriptor_.compare_exchange_strong(none, made, std::memory_order_acq_rel)) {
        close(made);
        return none;
    }
    sleepers_.fetch_add(with_descriptor, std::memory_order_acq_rel);
    ring();  // for what has come before
    return made;
}

/// Who has set it and not written yet leaves it to the next that finds nothing.
bool Side::take_ring() noexcept {
    std::uint64_t rung = 0;
    if (read(descriptor_.load(std::memory_order_acquire), &rung, sizeof(rung)) < 0) return false;
    rung_.exchange(false, std::memory_order_acq_rel);
    return true;
}

Side::Sleep::Sleep(Side& side) noexcept : side_(side) {
    side_.sleepers_.fetch_add(1, std::memory_order_acq_rel);
}

Side::Sleep::~Sleep() {
    side_.sleepers_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Side::Sleep::nap(std::uint64_t nanoseconds) noexcept {
    pollfd bell{side_.bell_, POLLIN, 0};
    const timespec limit{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
    const int rc = ppoll(&bell, 1, &limit, &blocked_.usual());
    if (rc < 0) return errno != EINTR;
    if (rc > 0) {
        std::uint64_t rung = 0;
        // Other sleepers do not hear it any more: who leaves something for them rings again.
        [[maybe_unused]] const ssize_t got = read(side_.bell_, &rung, sizeof(rung));
    }
    return true;
}

}  // namespace railyard::flow
