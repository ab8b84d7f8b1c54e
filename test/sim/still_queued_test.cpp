// Fabric efa reads registrations whenever it goes on with what it has queued, however long that is: the
// simulated provider ends the process where one has gone by then.
#include <thread>

#include "failover.h"
#include "manager/registration.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

constexpr const char* one_of_a = "rdmap79s0";
constexpr const char* one_of_b = "rdmap96s0";

/// Its WRITEs wait for the answer to a handshake that does not get through.
class StillQueued : public Failover {
  protected:
    StillQueued()
        : Failover(1,
                   {{"devices", one_of_a},
                    {"xfer_timeout_ms", "300"},
                    {"peer_timeout_ms", "60000"},
                    {"connect_timeout_ms", "300"}},
                   one_of_b) {}
    void set_off() {
        silent_ = prepare(4096);
        cluster().set("timeout_ms=60000");
        cluster().set("link=down", first_of_b);
        ASSERT_EQ(a_->post(*silent_), Status::in_progress);
    }
    Status deregister() {
        try {
            a_->deregister_memory(source_->region);
            return Status::ok;
        } catch (const Error& error) {
            return error.status();
        }
    }
    Transfer* silent_ = nullptr;
};

/// After 30 s, of which the host hears with the transfer's end.
TEST_P(StillQueued, WhatWasGivenUpIsNotDeregisteredBeforeItHasEnded) {
    set_off();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(45);
    Status status = Status::in_progress;
    while (status == Status::in_progress && std::chrono::steady_clock::now() < limit) {
        drive(milliseconds(20));
        status = a_->poll(*silent_);
    }
    EXPECT_EQ(status, Status::canceled);
    a_->release(silent_);
    EXPECT_EQ(deregister(), Status::not_allowed);
    const std::shared_ptr<Registration> region = source_->region;
    EXPECT_FALSE(region->deregistered.load());
    cluster().set("link=up", first_of_b);
    cluster().set("timeout_ms=0");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!region->deregistered.load() && std::chrono::steady_clock::now() < end)
        drive(milliseconds(10));
    EXPECT_TRUE(region->deregistered.load()) << "without being asked again";
}

TEST_P(StillQueued, WhatIsUnderWayIsKeptBehindTheEngine) {
    set_off();
    drive(milliseconds(600));  // its sender is set aside
    a_->release(silent_);
    source_->region.reset();
    a_.reset();
    EXPECT_NE(cluster().counter("endpoints", first_of_a), 0u) << "what was to be kept has gone";
    cluster().set("link=up", first_of_b);
    cluster().set("timeout_ms=0");
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto all_closed = [] {
        return cluster().counter("endpoints", first_of_a) == 0 &&
               cluster().counter("regions", first_of_a) == 0;
    };
    while (!all_closed() && std::chrono::steady_clock::now() < limit) {
        b_->progress();
        std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(all_closed());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StillQueued, testing::Values("efa"), efa_name);

}  // namespace
}  // namespace railyard::test
