// Our engine, for tests of what becomes of transfers when peers in processes of their own are in trouble.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_pair.h"
#include "far_side.h"
#include "patience.h"

namespace railyard::test {

/// Bytes of ours that nothing may touch from its making on.
class Untouched {
  public:
    explicit Untouched(Buffer& buffer) : buffer_(buffer) {
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::uint8_t{0x5a});
    }
    [[nodiscard]] bool holds() const {
        return std::all_of(buffer_.bytes.begin(), buffer_.bytes.end(),
                           [](std::uint8_t byte) { return byte == 0x5a; });
    }

  private:
    const Buffer& buffer_;
};

/// Part of a test: our engine, driven where it does not do so itself.
class Initiator {
  public:
    using Clock = std::chrono::steady_clock;
    using milliseconds = std::chrono::milliseconds;

  protected:
    Status wait(Transfer& transfer, milliseconds limit = std::chrono::seconds(20)) {
        const auto end = Clock::now() + limit;
        Status status = engine_->poll(transfer);
        for (Patience loop; status == Status::in_progress && Clock::now() < end; loop.turn())
            status = engine_->poll(transfer);
        return status;
    }
    Status run(Transfer& transfer) {
        const Status status = engine_->post(transfer);
        return status == Status::in_progress ? wait(transfer) : status;
    }
    /// Until `over`; false past the limit.
    bool until(const std::function<bool()>& over, milliseconds limit = std::chrono::seconds(20)) {
        const auto end = Clock::now() + limit;
        for (Patience loop; !over(); loop.turn()) {
            if (Clock::now() > end) return false;
            if (!has_thread_) engine_->progress();
        }
        return true;
    }
    /// Time goes by.
    void drive(milliseconds time) {
        until([] { return false; }, time);
    }
    PeerReport report_of(const std::string& agent) { return test::report_of(*engine_, agent); }
    PeerState state_of(const std::string& agent) { return report_of(agent).state; }

    std::unique_ptr<Engine> engine_;
    bool has_thread_ = false;
};

}  // namespace railyard::test
