// Transfers to oneself that end early: they copy nothing afterwards.
#include <algorithm>
#include <chrono>

#include "engine_pair.h"
#include "sanitized.h"

namespace railyard::test {
namespace {

constexpr std::size_t memory_size = std::size_t{sanitized ? 24 : 64} << 20;
constexpr std::uint8_t mark = 0x5a;

/// A WRITE of many rounds of the rail that copies.
class SelfTransfer : public testing::TestWithParam<Fabric> {
  protected:
    explicit SelfTransfer(ParamMap params = {})
        : engine_(make_engine("alpha", GetParam(), std::move(params))),
          source_(*engine_, memory_size, 1),
          target_(*engine_, memory_size),
          remote_(engine_->local_as_remote(target_.region)) {}

    [[nodiscard]] Transfer* prepare(Operation operation) {
        const LocalDescriptor from = source_.local(0, memory_size);
        const RemoteDescriptor to{target_.address(), memory_size, &remote_};
        return engine_->prepare(operation, {&from, 1}, {&to, 1}, "alpha", std::nullopt);
    }
    void post_and_release(Operation operation) {
        Transfer* transfer = prepare(operation);
        const Status posted = engine_->post(*transfer);
        // The thread may have been faster than we.
        EXPECT_TRUE(posted == Status::in_progress || (posted == Status::ok && GetParam().progress_thread));
        engine_->release(transfer);
    }
    /// Its owner uses the memory for something else, at once the end, which is copied last.
    void expect_nothing_lands(std::vector<std::uint8_t>& bytes) {
        std::fill(bytes.rbegin(), bytes.rend(), mark);
        for (int pass = 0; pass < 200; ++pass)
            engine_->progress();
        EXPECT_EQ(std::count(bytes.begin(), bytes.end(), mark), static_cast<std::ptrdiff_t>(memory_size));
    }

    const std::unique_ptr<Engine> engine_;
    Buffer source_, target_;
    std::shared_ptr<RemoteRegion> remote_;
};

TEST_P(SelfTransfer, NothingOfOneReleasedInFlightLandsLater) {
    post_and_release(Operation::write);
    expect_nothing_lands(target_.bytes);
    post_and_release(Operation::read);
    expect_nothing_lands(source_.bytes);
}

class TimedSelfTransfer : public SelfTransfer {
  protected:
    TimedSelfTransfer() : SelfTransfer({{"xfer_timeout_ms", "1"}}) {}
};

/// The engine looks at transfers now and then: tried until one is caught.
TEST_P(TimedSelfTransfer, EndsWithXferTimeoutAndNothingLandsLater) {
    Transfer* write = prepare(Operation::write);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Status status = Status::ok;
    while (status == Status::ok && std::chrono::steady_clock::now() < end) {
        status = engine_->post(*write);
        for (; status == Status::in_progress; status = engine_->poll(*write))
            engine_->progress();
    }
    EXPECT_EQ(status, Status::canceled);
    expect_nothing_lands(target_.bytes);
    engine_->release(write);
}

const auto driven = testing::Values(Fabric{"tcp", 1, false}, Fabric{"tcp", 1, true});
INSTANTIATE_TEST_SUITE_P(Fabrics, SelfTransfer, driven, fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, TimedSelfTransfer, driven, fabric_name);

}  // namespace
}  // namespace railyard::test
