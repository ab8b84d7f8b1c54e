// A target, initiators and their memory through the C API, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "railyard/flow.h"

namespace railyard::flow::test {

/// What a flow runs over: "tcp:lo:3" is three rails of tcp on the loopback interface, "tcp-msg:lo:3" the same
/// with connections.
struct Fabric {
    ryf_provider provider = RYF_PROVIDER_TCP;
    std::string interface;
    std::uint32_t rails = 1;
    std::string text;
    ryf_endpoint endpoint = RYF_ENDPOINT_DEFAULT;
};

inline std::vector<Fabric> fabrics() {
    const char* const listed = std::getenv("RAILYARD_TEST_FLOWS");
    std::istringstream words(listed ? listed : "tcp:lo:1");
    std::vector<Fabric> all;
    for (std::string word; std::getline(words, word, ',');) {
        std::istringstream parts(word);
        Fabric fabric;
        std::string provider, rails;
        std::getline(parts, provider, ':');
        std::getline(parts, fabric.interface, ':');
        std::getline(parts, rails);
        fabric.provider = provider == "shm"   ? RYF_PROVIDER_SHM
                          : provider == "efa" ? RYF_PROVIDER_EFA
                                              : RYF_PROVIDER_TCP;
        if (provider == "tcp-msg") fabric.endpoint = RYF_ENDPOINT_MSG;
        fabric.rails = static_cast<std::uint32_t>(std::stoul(rails));
        fabric.text = provider + "_" + rails;
        std::replace(fabric.text.begin(), fabric.text.end(), '-', '_');
        all.push_back(fabric);
    }
    return all;
}

inline std::string name_of(const testing::TestParamInfo<Fabric>& info) {
    return info.param.text;
}

/// What a call came to, in words.
inline std::string words(ryf_status status) {
    return std::string(ryf_status_to_string(status)) + " (" + ryf_last_error() + ")";
}
#define EXPECT_RYF(call) EXPECT_EQ(RYF_OK, (call)) << railyard::flow::test::words(RYF_OK)
#define ASSERT_RYF(call) ASSERT_EQ(RYF_OK, (call)) << railyard::flow::test::words(RYF_OK)

/// The memory of a ring of grains.
struct Ring {
    Ring(std::size_t count, std::size_t bytes) : length(bytes), memory(count * bytes) {
        std::vector<ryf_region> list;
        for (std::size_t i = 0; i < count; ++i)
            list.push_back({grain(i), length, RYF_MEMORY_HOST, 0});
        EXPECT_RYF(ryf_regions_create(list.data(), list.size(), &regions));
    }
    ~Ring() { ryf_regions_destroy(regions); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    [[nodiscard]] unsigned char* grain(std::size_t index) { return memory.data() + index * length; }
    void fill(std::size_t index, unsigned char seed) { std::memset(grain(index), seed, length); }
    [[nodiscard]] bool holds(std::size_t index, unsigned char seed) {
        for (std::size_t i = 0; i < length; ++i) {
            if (grain(index)[i] != seed) return false;
        }
        return true;
    }

    std::size_t length;
    std::vector<unsigned char> memory;
    ryf_regions* regions = nullptr;
};

inline ryf_config config_for(const Fabric& fabric, const ryf_regions* regions, std::uint32_t slices = 0) {
    ryf_config config{};
    config.provider = fabric.provider;
    config.endpoint = fabric.endpoint;
    config.interface = fabric.interface.empty() ? nullptr : fabric.interface.c_str();
    config.regions = regions;
    config.slices = slices;
    if (fabric.provider == RYF_PROVIDER_EFA) {
        config.rails = fabric.rails;
    } else {
        config.rails_per_device = fabric.rails;
    }
    return config;
}

struct Instance {
    Instance() { EXPECT_RYF(ryf_instance_create(&handle)); }
    ~Instance() { ryf_instance_destroy(handle); }
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    ryf_instance* handle = nullptr;
};

/// With the memory of another kind of ring.
template <class RingType>
class BasicTarget {
  public:
    BasicTarget(Instance& instance, const Fabric& fabric, std::size_t grains, std::size_t length,
                std::uint32_t slices = 0)
        : ring(grains, length) {
        EXPECT_RYF(ryf_target_create(instance.handle, &handle));
        const ryf_config config = config_for(fabric, ring.regions, slices);
        EXPECT_RYF(ryf_target_setup(handle, &config, &info));
    }
    ~BasicTarget() {
        EXPECT_RYF(ryf_target_destroy(handle));
        ryf_target_info_free(info);
    }
    BasicTarget(const BasicTarget&) = delete;
    BasicTarget& operator=(const BasicTarget&) = delete;

    /// The next one; fails the test where none comes.
    ryf_grain next(std::uint32_t timeout_ms = 20'000) {
        ryf_grain grain{};
        EXPECT_RYF(ryf_target_wait_for_new_grain(handle, &grain, timeout_ms));
        return grain;
    }
    [[nodiscard]] std::vector<ryf_source> sources() {
        std::size_t count = 0;
        EXPECT_RYF(ryf_target_sources(handle, nullptr, &count));
        std::vector<ryf_source> list(count);
        EXPECT_RYF(ryf_target_sources(handle, list.data(), &count));
        return list;
    }
    [[nodiscard]] std::string text() const {
        std::size_t size = 0;
        EXPECT_RYF(ryf_target_info_to_string(info, nullptr, &size));
        std::string text(size, '\0');
        EXPECT_RYF(ryf_target_info_to_string(info, text.data(), &size));
        text.resize(size - 1);
        return text;
    }

    RingType ring;
    ryf_target* handle = nullptr;
    ryf_target_info* info = nullptr;
};
using Target = BasicTarget<Ring>;

template <class RingType>
class BasicInitiator {
  public:
    BasicInitiator(Instance& instance, const Fabric& fabric, std::size_t grains, std::size_t length)
        : ring(grains, length) {
        EXPECT_RYF(ryf_initiator_create(instance.handle, &handle));
        const ryf_config config = config_for(fabric, ring.regions);
        EXPECT_RYF(ryf_initiator_setup(handle, &config));
    }
    ~BasicInitiator() { EXPECT_RYF(ryf_initiator_destroy(handle)); }
    BasicInitiator(const BasicInitiator&) = delete;
    BasicInitiator& operator=(const BasicInitiator&) = delete;

    /// Until nothing is left.
    [[nodiscard]] ryf_status settle(std::uint32_t timeout_ms = 20'000) {
        return ryf_initiator_make_progress_blocking(handle, timeout_ms);
    }
    template <class SomeTarget>
    void add(const SomeTarget& target) {
        EXPECT_RYF(ryf_initiator_add_target(handle, target.info));
        EXPECT_RYF(settle());
    }
    void send(std::uint32_t index, unsigned char seed) {
        ring.fill(index, seed);
        EXPECT_RYF(ryf_initiator_transfer_grain(handle, index));
        EXPECT_RYF(settle());
    }

    RingType ring;
    ryf_initiator* handle = nullptr;
};
using Initiator = BasicInitiator<Ring>;

}  // namespace railyard::flow::test
