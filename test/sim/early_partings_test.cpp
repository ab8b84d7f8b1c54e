// Notifications that leave together with their data, where one side forgets the other: they go on so.
#include "early_fixture.h"
#include "engine/early_window.h"
#include "log_lines.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct EarlyPartings : EarlyNotifications {};

/// Whoever has met the same instance before goes on where it was, however often.
TEST_P(EarlyPartings, PeersThatPartAndMeetGoOn) {
    meet();
    const Growth notices("notices");
    for (int i = 0; i < 5; ++i) {
        const std::string info = b_->connection_info();
        a_->disconnect("beta");
        a_->load_connection_info("beta", info);
        remote_ =
            a_->load_remote_memory("beta", b_->memory_metadata(*target_->region), target_->address(), size);
        warm_up();
        write_and_compare(4);
    }
    EXPECT_GE(notices.value(), 15u);
}

/// Which tells nobody how far it is meanwhile.
TEST_P(EarlyPartings, GoOnOnceATargetThatHasForgottenTheWriterKnowsItAgain) {
    const std::string info = a_->connection_info();
    meet();
    b_->disconnect("alpha");
    write_and_compare(EarlyMark::favoured_window + 2);
    b_->load_connection_info("alpha", info);
    drive(milliseconds(50));
    const Growth notices("notices");
    write_and_compare(20);
    EXPECT_GE(notices.value(), 15u) << "what was refused there may have cost the number";
}

TEST_P(EarlyPartings, GoOnAfterAWhileWithATargetThatHasForgottenTheWriter) {
    meet();
    b_->disconnect("alpha");
    write_and_compare(EarlyMark::favoured_window + 2);
    const Growth notices("notices");
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (notices.value() < 20 && Clock::now() < limit && !HasFailure()) {
        write_and_compare(4);
        drive(milliseconds(50));
    }
    EXPECT_GE(notices.value(), 20u);
}

/// What the target tells of the marks comes while the writer does not know it.
TEST_P(EarlyPartings, GoOnWhereTheWriterHasForgottenTheTargetForAWhile) {
    meet();
    const std::string info = b_->connection_info();
    for (std::uint32_t used = 0; used < 2 * EarlyMark::favoured_window; used += EarlyMark::most_operations) {
        Transfer* transfer = prepare_pages(EarlyMark::most_operations, "there");
        ASSERT_EQ(run_alone(*a_, *transfer), Status::ok);
        a_->release(transfer);
        a_->disconnect("beta");
        EXPECT_EQ(arrived(1, milliseconds(20)).size(), 1u);
        a_->load_connection_info("beta", info);
        remote_ =
            a_->load_remote_memory("beta", b_->memory_metadata(*target_->region), target_->address(), size);
        warm_up();
    }
    const Growth notices("notices");
    constexpr int more = EarlyMark::favoured_window + 2;
    write_and_compare(more);
    EXPECT_GE(notices.value(), more - 5u);
}

/// An instance of its own on alpha's NICs, which writes to beta once, with a notification.
class OneTimeWriter {
  public:
    OneTimeWriter(std::unique_ptr<Engine> engine, Engine& to, const Buffer& target)
        : engine_(std::move(engine)), buffer_(std::make_unique<Buffer>(*engine_, page)) {
        engine_->load_connection_info("beta", to.connection_info());
        const auto remote = engine_->load_remote_memory("beta", to.memory_metadata(*target.region),
                                                        target.address(), target.bytes.size());
        const LocalDescriptor from = buffer_->local(0, page);
        const RemoteDescriptor there{target.address(), page, &remote};
        Transfer* write = engine_->prepare(Operation::write, {&from, 1}, {&there, 1}, "beta", "once");
        Status status = engine_->post(*write);
        const auto end = Clock::now() + std::chrono::seconds(10);
        const long told = LogLines::count("may send notifications");
        std::vector<Notification> heard;
        while ((status == Status::in_progress || LogLines::count("may send notifications") == told) &&
               Clock::now() < end) {
            status = engine_->poll(*write);
            to.take_notifications(heard);
        }
        EXPECT_EQ(status, Status::ok);
        engine_->release(write);
    }
    ~OneTimeWriter() { engine_->deregister_memory(buffer_->region); }
    OneTimeWriter(const OneTimeWriter&) = delete;
    OneTimeWriter& operator=(const OneTimeWriter&) = delete;

  private:
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Buffer> buffer_;
};

/// The target never writes to them, and their names never come again.
TEST_P(EarlyPartings, WritersThatHaveEndedKeepNobodyFromAWideWindow) {
    meet();
    cluster().set("timeout_ms=100");
    const LogLines lines(log::Level::debug);
    const auto wide = [] { return LogLines::count(", up to 128 ahead"); };
    std::vector<std::unique_ptr<OneTimeWriter>> writers;
    const auto add = [&] {
        const std::string name = "writer-" + std::to_string(writers.size());
        writers.push_back(std::make_unique<OneTimeWriter>(engine(name, nics_of_a, {}), *b_, *target_));
    };
    for (std::uint32_t i = 1; i < EarlyMark::favoured_writers && !HasFailure(); ++i)
        add();
    EXPECT_EQ(wide(), static_cast<long>(EarlyMark::favoured_writers) - 1);
    for (auto& writer : writers)
        writer.reset();
    for (const auto end = Clock::now() + std::chrono::seconds(20);
         wide() < static_cast<long>(EarlyMark::favoured_writers) && Clock::now() < end && !HasFailure();) {
        add();
        drive(milliseconds(300));
    }
    EXPECT_EQ(wide(), static_cast<long>(EarlyMark::favoured_writers));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EarlyPartings, testing::Values("efa-direct", "efa"), efa_name);

}  // namespace
}  // namespace railyard::test
