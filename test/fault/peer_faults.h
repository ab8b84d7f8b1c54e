// An engine, and others in processes of their own that are stopped, killed and cut off.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "peers.h"
#include "simulated_machine.h"

namespace railyard::test {

class PeerFaults : public testing::TestWithParam<Fabric>, protected Initiator {
  protected:
    static constexpr std::size_t size = std::size_t{4} << 20;

    ~PeerFaults() override { cluster().reset(); }

    void start(const ParamMap& params = {}) {
        has_thread_ = GetParam().progress_thread;
        engine_ = make_engine("alpha", GetParam(), params);
    }
    std::unique_ptr<FarSide> target(const std::string& agent, std::size_t bytes = size) {
        auto made = std::make_unique<FarSide>(*engine_, GetParam(), agent, bytes);
        made->meet();
        return made;
    }

    /// Carried out, however often the limits that a test is for end it first: the machine may stop us.
    bool carried_out(Transfer& transfer) {
        return until([&] { return run(transfer) == Status::ok; });
    }

    /// On fabric efa what has been posted ends when our NICs give it up, and nothing ends it before (ADR 40).
    static bool ends_with_the_nics() { return std::string_view(GetParam().provider) == "efa"; }
    void cut_off() {
        cluster().set(ends_with_the_nics() ? "timeout_ms=1500" : "timeout_ms=20000");
        cluster().set("link=down");
    }
    /// A black hole: nothing is refused, nothing is answered, by its process or its NICs.
    void vanish(const FarSide& peer) {
        cut_off();
        peer.process->send_signal(SIGSTOP);
    }
    /// In time, and then there is nothing of it under way.
    void release(Transfer* transfer, FarSide& peer) {
        ASSERT_EQ(engine_->post(*transfer), Status::in_progress);
        peer.transfers.clear();
        const auto start = Clock::now();
        engine_->release(transfer);
        EXPECT_LT(Clock::now() - start, milliseconds(5000));
        if (ends_with_the_nics()) drive(milliseconds(3000));
    }
    void return_again(const FarSide& peer) {
        cluster().reset();
        peer.process->send_signal(SIGCONT);
    }

    /// With `read` in flight its peer vanishes; whatever `end` then does to it, it touches our bytes no more,
    /// also when the peer is back.
    void vanish_under(Transfer& read, const FarSide& peer, const std::function<void()>& end) {
        ASSERT_TRUE(carried_out(read));
        vanish(peer);
        const auto start = Clock::now();
        end();
        EXPECT_LT(Clock::now() - start, milliseconds(8000));
        const Untouched bytes(*peer.near);
        return_again(peer);
        drive(milliseconds(300));
        EXPECT_TRUE(bytes.holds()) << "read into afterwards";
    }
};

}  // namespace railyard::test
