// Two rails on NICs of their own that know each other, without engines.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "rail/fabric_rail.h"
#include "stranger.h"

namespace railyard::test {

inline std::shared_ptr<const fabric::Device> device_of(const std::string& family, const std::string& name,
                                                       bool gpu_memory = true) {
    auto devices = fabric::discover(family, fabric::parse_device_filter(name), gpu_memory);
    return std::make_shared<const fabric::Device>(std::move(devices.front()));
}

struct TwoRails {
    TwoRails(const std::string& family, const std::string& nic_of_a, const std::string& nic_of_b)
        : a("a", device_of(family, nic_of_a), inbox_a, config),
          b("b", device_of(family, nic_of_b), inbox_b, config) {
        b_at_a = a.insert_peer(b.address());
        b.admit_sender(a.sender().address);
    }

    /// One WRITE or READ by `a` in chunks of `chunk` bytes.
    Status move(Work::Kind kind, const RegisteredMemory& local, std::uint64_t from,
                const RegisteredMemory& remote, std::uint64_t to, std::uint64_t length, std::uint32_t chunk) {
        Route route{&a, b_at_a, nullptr, false, {local.descriptor}, {{remote.key, remote.address_base}}};
        Work work;
        work.kind = kind;
        for (std::uint64_t done = 0; done < length; done += chunk)
            work.chunks.push_back(
                {from + done, to + done,
                 static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, length - done))});
        work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(work.chunks.size()));
        Submission submission;
        submission.lane = &work.lanes.front();
        submission.route = &route;
        work.arm(1, nullptr);
        a.submit(submission);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!work.done() && std::chrono::steady_clock::now() < end) {
            a.progress();
            b.progress();
        }
        EXPECT_TRUE(work.done());
        return work.status();
    }

    static constexpr FabricRailConfig config{false, 5'000'000'000};
    NotificationInbox inbox_a, inbox_b;
    FabricRail a, b;
    PeerAddress b_at_a = no_address;
};

}  // namespace railyard::test
