// A domain's event queue against a scripted provider: events that nobody asked for, and errors without end.
#include "fabric/domain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "log_lines.h"

namespace railyard::fabric {
namespace domain_test {

struct Script {
    std::uint32_t event = 4711;
    fid* connection = nullptr;
    fi_info* request = nullptr;
    fid* failed = nullptr;
    ssize_t read = -FI_EAGAIN;
    ssize_t readerr = 1;
    std::size_t reads = 0;
    std::size_t most = SIZE_MAX;  // reads that are answered
    std::size_t room = 0;
};
Script script;

ssize_t scripted_read(fid_eq*, std::uint32_t* event, void* entry, std::size_t room, std::uint64_t) {
    ++script.reads;
    script.room = room;
    *event = script.event;
    auto& connection = *static_cast<fi_eq_cm_entry*>(entry);
    connection.fid = script.connection;
    connection.info = script.request;
    if (script.reads > script.most) return -FI_EAGAIN;
    return script.read;
}

ssize_t scripted_readerr(fid_eq*, fi_eq_err_entry* entry, std::uint64_t) {
    EXPECT_EQ(entry->err_data_size, 0u);
    entry->err = FI_EIO;
    entry->fid = script.failed;
    return script.readerr;
}

class DomainEvents : public testing::Test {
  protected:
    DomainEvents()
        : domain_(
              std::make_shared<const Device>(std::move(discover("tcp", parse_device_filter("lo")).front())),
              "rail"),
          real_(domain_.event_queue()->ops),
          scripted_(*real_) {
        script = {};
        scripted_.read = scripted_read;
        scripted_.readerr = scripted_readerr;
        domain_.event_queue()->ops = &scripted_;
    }
    ~DomainEvents() override { domain_.event_queue()->ops = real_; }

    Domain domain_;
    fi_ops_eq* real_;
    fi_ops_eq scripted_;
    test::LogLines log_{log::Level::info};
};

TEST_F(DomainEvents, UnknownEventsWithoutEndTakeABoundedRoundAndFewLines) {
    script.read = sizeof(fi_eq_entry);
    for (int i = 0; i < 128; ++i)
        EXPECT_TRUE(domain_.drain_events());
    EXPECT_EQ(script.reads, 128u * Domain::events_per_drain);
    EXPECT_EQ(log_.count(), 11) << "1, 2, 4, ... 1024 of 1024";
    EXPECT_EQ(domain_.event_errors(), 0u);
    EXPECT_GE(script.room, sizeof(fi_eq_cm_entry) + 256) << "what does not fit stays at the head";
}

TEST_F(DomainEvents, ErrorsAreCountedForTheOwner) {
    script.read = -FI_EAVAIL;
    for (int i = 0; i < 16; ++i)
        EXPECT_TRUE(domain_.drain_events());
    EXPECT_EQ(script.reads, 16u * Domain::events_per_drain);
    EXPECT_EQ(domain_.event_errors(), 16u * Domain::events_per_drain);
    EXPECT_EQ(log_.count(), 8);
}

TEST_F(DomainEvents, AnErrorThatCannotBeReadEndsTheRound) {
    script.read = -FI_EAVAIL;
    for (const ssize_t answer : {ssize_t{0}, ssize_t{-FI_EAGAIN}, ssize_t{-FI_EINVAL}}) {
        script.reads = 0;
        script.readerr = answer;
        EXPECT_FALSE(domain_.drain_events());
        EXPECT_EQ(script.reads, 1u);
    }
    EXPECT_EQ(domain_.event_errors(), 0u);
}

TEST_F(DomainEvents, AnAnswerNeverSeenEndsTheRoundAndIsSaidNowAndThen) {
    script.read = -98'765;
    for (int i = 0; i < 100; ++i)
        EXPECT_FALSE(domain_.drain_events());
    EXPECT_EQ(script.reads, 100u);
    EXPECT_EQ(log_.count(), 7) << "1, 2, 4, ... 64 of 100";
}

struct Heard final : ConnectionSink {
    void on_connected(fid* connection) noexcept override { connected = connection; }
    void on_disconnected(fid* connection, int why) noexcept override {
        disconnected = connection;
        error = why;
    }
    void on_request(fid*, InfoPtr info) noexcept override { request = std::move(info); }
    fid* connected = nullptr;
    fid* disconnected = nullptr;
    int error = 0;
    InfoPtr request;
};

TEST_F(DomainEvents, ConnectionsAreToldOfWhatHappensToThem) {
    Heard heard;
    fid connection{};
    domain_.watch(&connection, heard);
    script.read = sizeof(fi_eq_cm_entry);
    script.connection = &connection;
    script.event = FI_CONNECTED;
    EXPECT_TRUE(domain_.drain_events());
    EXPECT_EQ(heard.connected, &connection);
    script.event = FI_SHUTDOWN;
    EXPECT_TRUE(domain_.drain_events());
    EXPECT_EQ(heard.disconnected, &connection);
    EXPECT_EQ(heard.error, FI_ECONNRESET);
    script.read = -FI_EAVAIL;
    script.failed = &connection;
    EXPECT_TRUE(domain_.drain_events());
    EXPECT_EQ(heard.error, FI_EIO);
    EXPECT_EQ(domain_.event_errors(), 0u) << "of a connection, not of the device";
    EXPECT_EQ(log_.count(), 0);
}

TEST_F(DomainEvents, ConnectionsThatAreClosedAreNotLookedAtAndTheirRequestsAreFreed) {
    Heard heard;
    fid connection{};
    domain_.watch(&connection, heard);
    domain_.unwatch(&connection);
    script.read = sizeof(fi_eq_cm_entry);
    script.connection = &connection;
    for (const std::uint32_t event : {FI_CONNECTED, FI_SHUTDOWN}) {
        script.event = event;
        EXPECT_TRUE(domain_.drain_events());
    }
    EXPECT_EQ(heard.connected, nullptr);
    EXPECT_EQ(heard.disconnected, nullptr);
    script.event = FI_CONNREQ;
    for (const bool watched : {false, true}) {
        if (watched) domain_.watch(&connection, heard);
        script.most = script.reads + 1;
        script.request = fi_allocinfo();  // a leak where nobody frees it
        EXPECT_TRUE(domain_.drain_events());
    }
    EXPECT_EQ(heard.request.get(), script.request);
}

}  // namespace domain_test
}  // namespace railyard::fabric
