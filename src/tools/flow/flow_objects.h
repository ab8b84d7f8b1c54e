// Owners of the flow API's objects, and its failing calls as exceptions with the library's own words.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/spoken.h"
#include "railyard/flow.h"
#include "tools/flow/failure.h"
#include "tools/flow/options.h"
#include "tools/flow/ring_memory.h"

namespace railyard::tools::flow {

template <auto destroy>
struct Destroy {
    template <class T>
    void operator()(T* object) const noexcept {
        static_cast<void>(destroy(object));
    }
};
using Instance = std::unique_ptr<ryf_instance, Destroy<ryf_instance_destroy>>;
using Regions = std::unique_ptr<ryf_regions, Destroy<ryf_regions_destroy>>;
using Target = std::unique_ptr<ryf_target, Destroy<ryf_target_destroy>>;
using Initiator = std::unique_ptr<ryf_initiator, Destroy<ryf_initiator_destroy>>;
using TargetInfo = std::unique_ptr<ryf_target_info, Destroy<ryf_target_info_free>>;

/// What the last call of this thread met, with its status' name.
[[nodiscard]] inline std::string words_for(ryf_status status) {
    const std::string error = ryf_last_error();
    return (error.empty() ? "no reason given" : error) + " (" + ryf_status_to_string(status) + ")";
}

/// Right after a call. Throws Failure("cannot <doing>: ...").
inline void check(ryf_status status, const char* doing) {
    if (status != RYF_OK) throw Failure(std::string("cannot ") + doing + ": " + words_for(status));
}

[[nodiscard]] inline Instance make_instance() {
    ryf_instance* made = nullptr;
    check(ryf_instance_create(&made), "make an instance");
    return Instance(made);
}

[[nodiscard]] inline Regions make_regions(const RingMemory& memory) {
    std::vector<ryf_region> list;
    for (std::uint32_t i = 0; i < memory.grains(); ++i)
        list.push_back({memory.grain(i), memory.grain_size(), RYF_MEMORY_HOST, 0});
    ryf_regions* made = nullptr;
    check(ryf_regions_create(list.data(), list.size(), &made), "make the list of regions");
    return Regions(made);
}

[[nodiscard]] inline Target make_target(const Instance& instance) {
    ryf_target* made = nullptr;
    check(ryf_target_create(instance.get(), &made), "make a target");
    return Target(made);
}

[[nodiscard]] inline Initiator make_initiator(const Instance& instance) {
    ryf_initiator* made = nullptr;
    check(ryf_initiator_create(instance.get(), &made), "make an initiator");
    return Initiator(made);
}

/// Points into `options`.
[[nodiscard]] inline ryf_config config_of(const Options& options, const Regions& regions) noexcept {
    ryf_config config{};
    config.provider = options.provider;
    config.endpoint = options.endpoint;
    config.interface = options.interface.empty() ? nullptr : options.interface.c_str();
    config.rails = options.rails;
    config.rails_per_device = options.rails_per_device;
    config.regions = regions.get();
    config.slices = options.slices;
    return config;
}

/// "lo: tcp (net), shm: shm", or "none".
[[nodiscard]] inline std::string interfaces_here(const Instance& instance, ryf_provider provider) {
    std::array<ryf_interface, 64> found{};
    std::size_t count = found.size();
    const ryf_status status = ryf_instance_interfaces(instance.get(), provider, found.data(), &count);
    if (status != RYF_OK && status != RYF_ERR_INVALID_ARG)
        count = 0;  // too little room: what there is room for
    std::string list;
    for (std::size_t i = 0; i < count && i < found.size(); ++i)
        list +=
            (list.empty() ? "" : ", ") + std::string(found[i].name) + ": " + spoken_provider(found[i].fabric);
    return list.empty() ? "none" : list;
}

/// After a setup. Throws what names the options that decide, and the devices there are.
inline void check_setup(ryf_status status, const Options& options, const Instance& instance) {
    if (status == RYF_OK) return;
    const std::string words = words_for(status);
    switch (status) {
        case RYF_ERR_INVALID_ARG:
            throw UsageError("--provider, --interface, --rails, --ring, --grain-size or --slices: " + words +
                             "; devices here: " + interfaces_here(instance, options.provider));
        case RYF_ERR_NO_FABRIC:
            throw Failure("no device for --provider and --interface: " + words +
                          "; devices here: " + interfaces_here(instance, RYF_PROVIDER_ANY));
        case RYF_ERR_UNSUPPORTED:
            throw Failure("not possible with this --provider and --endpoint: " + words +
                          "; try --endpoint default");
        default:
            throw Failure("cannot open the rails: " + words);
    }
}

[[nodiscard]] inline std::string text_of(const TargetInfo& info) {
    std::size_t size = 0;
    check(ryf_target_info_to_string(info.get(), nullptr, &size), "print the target info");
    std::string text(size, '\0');
    check(ryf_target_info_to_string(info.get(), text.data(), &size), "print the target info");
    text.resize(size - 1);  // the final NUL
    return text;
}

}  // namespace railyard::tools::flow
