// Our engine over tcp on a network that fails, and its peers: see faults.sh, which the tests are started by.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/transfer.h"
#include "network.h"
#include "peers.h"
#include "sanitized.h"

namespace railyard::test {

inline constexpr int patience_ms = 1500;  // longer than a busy machine holds a peer or us up
inline constexpr std::size_t flight_size = std::size_t{sanitized ? 1 : 4} << 20;

/// With datagrams, or connections.
inline std::string provider() {
    const char* const chosen = std::getenv("RAILYARD_TEST_PROVIDER");
    return chosen ? chosen : "tcp";
}

inline bool wire_is_possible() {
    return access("/dev/net/tun", R_OK | W_OK) == 0;
}

/// The ends of a wire of our own between us and b, made as that device; false: they do not come up.
inline bool bring_up(const std::string& device) {
    for (const char* machine : {"a", "b"}) {
        ip(machine,
           std::string("address add 10.212.3.") + (*machine == 'a' ? "1" : "2") + "/24 dev " + device);
        ip(machine, "link set " + device + " up");
    }
    int carrier = 0;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!carrier && std::chrono::steady_clock::now() < limit)
        std::ifstream("/sys/class/net/" + device + "/carrier") >> carrier;
    return carrier != 0;
}

class NetFaults : public testing::Test, protected Initiator {
  protected:
    /// Our engine on machine a, and where its peers are: on the same devices.
    void start(const std::string& devices, bool progress_thread, ParamMap params = {}, int rails = 1) {
        devices_ = devices;
        has_thread_ = progress_thread;
        params.try_emplace("peer_timeout_ms", std::to_string(patience_ms));
        peer_timeout_ = params["peer_timeout_ms"];
        params["devices"] = devices;
        engine_ = make_engine("alpha", {provider(), rails, progress_thread}, params);
    }
    std::unique_ptr<FarSide> peer(const std::string& machine, int rails = 1) {
        auto process = std::make_unique<OtherMachine>(
            std::getenv("HWLOC_XMLFILE"), machine,
            Words{"agent=" + machine, "provider=" + provider(), "devices=" + devices_,
                  "rails_per_device=" + std::to_string(rails), "peer_timeout_ms=" + peer_timeout_},
            true, Words{"ip", "netns", "exec", namespace_of(machine)});
        auto made = std::make_unique<FarSide>(*engine_, std::move(process), machine, flight_size);
        made->meet();
        return made;
    }
    /// READs and WRITEs in turn, which together fill the whole buffer. WRITEs alone over libfabric before
    /// 1.18, which frees the memory of a READ twice when its connection breaks under it (docs/gotchas.md).
    static std::vector<Transfer*> flight(FarSide& peer, std::size_t count = 4) {
        std::vector<Transfer*> all;
        for (std::size_t i = 0; i < count; ++i)
            all.push_back(peer.prepare(
                i % 2 && FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)) ? Operation::read : Operation::write,
                flight_size / count, i * flight_size / count));
        return all;
    }
    void run_all(const std::vector<Transfer*>& transfers) {
        for (Transfer* transfer : transfers)
            ASSERT_EQ(run(*transfer), Status::ok);
    }

    struct Course {
        milliseconds last_end{0};     ///< of those that ended with an error, after the strike
        milliseconds longest_gap{0};  ///< between two that were carried out
        int carried_out = 0;          ///< after the strike
        std::map<Status, int> errors;
    };
    /// Reposts each transfer until it ends with an error or `over`. `struck` is when the fault was there.
    Course pump(const std::vector<Transfer*>& transfers, const std::vector<Transfer*>& others,
                std::future<Clock::time_point>& struck, Course& of_others) {
        Course course;
        std::optional<Clock::time_point> at;
        std::vector<Transfer*> left = transfers;
        Clock::time_point last_other = Clock::now();
        for (const auto* list : {&transfers, &others})
            for (Transfer* transfer : *list)
                engine_->post(*transfer);
        const auto repost = [&](Transfer* transfer, Course& to) {
            Status status = engine_->poll(*transfer);
            if (status == Status::in_progress) return true;
            if (status == Status::ok) {
                to.carried_out += at ? 1 : 0;
                if (&to == &of_others) {
                    to.longest_gap = std::max(to.longest_gap, since(last_other));
                    last_other = Clock::now();
                }
                status = engine_->post(*transfer);
                if (status == Status::in_progress || status == Status::ok) return true;
            }
            ++to.errors[status];
            to.last_end = at ? since(*at) : milliseconds(0);
            return false;
        };
        EXPECT_TRUE(until([&] {
            if (!at && struck.wait_for(milliseconds(0)) == std::future_status::ready) at = struck.get();
            std::erase_if(left, [&](Transfer* transfer) { return !repost(transfer, course); });
            for (Transfer* transfer : others)
                repost(transfer, of_others);
            return left.empty();
        })) << left.size()
            << " transfers never ended";
        return course;
    }
    static milliseconds since(Clock::time_point when) {
        return std::chrono::duration_cast<milliseconds>(Clock::now() - when);
    }

    std::string devices_, peer_timeout_;
};

}  // namespace railyard::test
