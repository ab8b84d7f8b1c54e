// A domain's event queue against a scripted provider: events that nobody asked for, and errors without end.
#include "fabric/domain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "log_lines.h"

namespace railyard::fabric {
namespace {

struct Script {
    ssize_t read = -FI_EAGAIN;
    ssize_t readerr = 1;
    std::size_t reads = 0;
    std::size_t room = 0;
};
Script script;

ssize_t scripted_read(fid_eq*, std::uint32_t* event, void*, std::size_t room, std::uint64_t) {
    ++script.reads;
    script.room = room;
    *event = 4711;
    return script.read;
}

ssize_t scripted_readerr(fid_eq*, fi_eq_err_entry* entry, std::uint64_t) {
    EXPECT_EQ(entry->err_data_size, 0u);
    entry->err = FI_EIO;
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

}  // namespace
}  // namespace railyard::fabric
