// Two engines on simulated NICs of their own, some of which are going to fail.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine_pair.h"
#include "patience.h"
#include "simulated_machine.h"

namespace railyard::test {

inline constexpr const char* nics_of_a = "rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0";
inline constexpr const char* nics_of_b = "rdmap96s0,rdmap97s0,rdmap98s0,rdmap99s0";
inline const simefa::NicPattern first_of_a{"*", "rdmap79s0"}, second_of_a{"*", "rdmap80s0"},
    first_of_b{"*", "rdmap96s0"};

/// alpha and beta on NICs of their own, and one WRITE between them.
class Failover : public testing::TestWithParam<const char*> {
  protected:
    explicit Failover(int rails = 4, const ParamMap& more = {}, const char* nics_there = nics_of_b,
                      std::size_t length = size)
        : fabric_{GetParam(), rails, false} {
        calm();
        a_ = engine("alpha", nics_of_a, more);
        b_ = engine("beta", nics_there, more);
        a_->load_connection_info("beta", b_->connection_info());
        b_->load_connection_info("alpha", a_->connection_info());
        source_ = std::make_unique<Buffer>(*a_, length);
        target_ = std::make_unique<Buffer>(*b_, length);
        fill_pattern(source_->bytes, 1);
        remote_ =
            a_->load_remote_memory("beta", b_->memory_metadata(*target_->region), target_->address(), length);
    }
    ~Failover() override { cluster().reset(); }

    /// Nothing is wrong. NICs have a rate, so that each carries its share.
    static void calm() {
        cluster().reset();
        cluster().set("rate_gbps=4");
    }

    std::unique_ptr<Engine> engine(const std::string& name, const char* nics, ParamMap params) {
        params["devices"] = nics;
        return make_engine(name, fabric_, std::move(params));
    }
    Transfer* prepare(std::size_t length = size, std::size_t at = 0,
                      std::optional<std::string_view> notification = std::nullopt) {
        const LocalDescriptor from = source_->local(at, length);
        const RemoteDescriptor to{target_->address() + at, length, &remote_};
        return a_->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", notification);
    }
    Status wait(Transfer& transfer) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        Status status = Status::in_progress;
        for (Patience loop; status == Status::in_progress && std::chrono::steady_clock::now() < end;
             loop.turn()) {
            status = a_->poll(transfer);
            b_->progress();
        }
        return status;
    }
    Status run(Transfer& transfer) {
        const Status status = a_->post(transfer);
        return status == Status::in_progress ? wait(transfer) : status;
    }
    /// The rail whose bytes `sent` counts carries more than `bytes` of what is posted from now on.
    void expect_used_again(Transfer& transfer, const Growth& sent, std::uint64_t bytes) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
        while (sent.value() <= bytes && std::chrono::steady_clock::now() < limit) {
            drive(std::chrono::milliseconds(50));
            EXPECT_EQ(run(transfer), Status::ok);
        }
        EXPECT_GT(sent.value(), bytes) << "the rail is not used again";
    }
    /// From the post to the notification, in units of the wire's latency: one where it leaves together with
    /// its data, two and more where it follows it.
    double latencies_to_notification(Transfer& transfer) {
        constexpr double latency_ms = 40;
        cluster().set("latency_us=40000");
        const auto begun = std::chrono::steady_clock::now();
        EXPECT_EQ(a_->post(transfer), Status::in_progress);
        std::vector<Notification> got;
        while (got.empty() && std::chrono::steady_clock::now() < begun + std::chrono::seconds(10)) {
            a_->progress();
            b_->take_notifications(got);
        }
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begun;
        EXPECT_EQ(got.size(), 1u);
        EXPECT_EQ(wait(transfer), Status::ok);
        cluster().set("latency_us=0");
        return taken.count() / latency_ms;
    }
    void drive(std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        for (Patience loop; std::chrono::steady_clock::now() < end; loop.turn()) {
            a_->progress();
            b_->progress();
        }
    }
    /// Until no path to the other side has failed.
    void drive_until_well() {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
        while (report_of(*a_, "beta").state != PeerState::ready && std::chrono::steady_clock::now() < limit)
            drive(std::chrono::milliseconds(10));
        EXPECT_EQ(report_of(*a_, "beta").state, PeerState::ready);
    }
    /// Introductions and handshakes are over.
    void warm_up() {
        Transfer* transfer = prepare();
        ASSERT_EQ(run(*transfer), Status::ok);
        a_->release(transfer);
        std::fill(target_->bytes.begin(), target_->bytes.end(), std::uint8_t{0});
    }

    static constexpr std::size_t size = 8 << 20;
    const Fabric fabric_;
    std::unique_ptr<Engine> a_, b_;
    std::unique_ptr<Buffer> source_, target_;
    std::shared_ptr<RemoteRegion> remote_;
};

inline std::string efa_name(const testing::TestParamInfo<const char*>& fabric) {
    return std::string(fabric.param) == "efa" ? "efa" : "efa_direct";
}

}  // namespace railyard::test
