// A transfer that may go as one message, and what tells whether it did: the ground of the tests of these.
#pragma once

#include "engine_pair.h"
#include "manager/registration.h"

namespace railyard::test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct EagerCase {
    Fabric fabric;
    Operation operation;
};

inline std::vector<EagerCase> both_ways(const std::vector<Fabric>& fabrics) {
    std::vector<EagerCase> cases;
    for (const Fabric& fabric : fabrics) {
        for (const Operation operation : {Operation::write, Operation::read})
            cases.push_back({fabric, operation});
    }
    return cases;
}

inline std::string case_name(const testing::TestParamInfo<EagerCase>& info) {
    return fabric_name({info.param.fabric, info.index}) +
           (info.param.operation == Operation::read ? "_read" : "_write");
}

class EagerTest : public testing::TestWithParam<EagerCase> {
  protected:
    std::size_t size = std::size_t{64} << 10;  // of both buffers; before start()

    void start(const ParamMap& params = {}) {
        pair_ = std::make_unique<EnginePair>(GetParam().fabric, GetParam().fabric, params);
        source_ = std::make_unique<Buffer>(*pair_->a, size);
        target_ = std::make_unique<Buffer>(*pair_->b, size);
        remote_ = pair_->publish(*target_);
    }
    [[nodiscard]] Buffer& from() { return GetParam().operation == Operation::write ? *source_ : *target_; }
    [[nodiscard]] Buffer& to() { return GetParam().operation == Operation::write ? *target_ : *source_; }
    Transfer* prepare(std::size_t pieces, std::size_t length, std::optional<std::string_view> text = "told") {
        std::vector<LocalDescriptor> local;
        std::vector<RemoteDescriptor> remote;
        for (std::size_t i = 0; i < pieces; ++i) {
            local.push_back(source_->local(2 * i * length, length));
            remote.push_back({target_->address() + 2 * i * length, length, &remote_});
        }
        return pair_->a->prepare(GetParam().operation, local, remote, "beta", text);
    }
    /// Posted until it goes as a message, which it does once the peer has said that it knows us.
    Transfer* acquainted(std::size_t pieces = 1, std::size_t length = 8) {
        Transfer* const transfer = prepare(pieces, length);
        std::size_t rounds = 0;
        std::uint64_t before = 0;
        do {
            before = operations();
            EXPECT_EQ(pair_->run(*transfer), Status::ok);
            pair_->notifications(1);
        } while (operations() != before && ++rounds < 1000);
        EXPECT_LT(rounds, 1000u) << "it never goes as a message";
        return transfer;
    }
    [[nodiscard]] std::uint64_t operations() const {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : pair_->a->rail_counters())
            sum += rail.operations[0] + rail.operations[1];
        return sum;
    }
    [[nodiscard]] std::uint64_t messages() const {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : pair_->a->rail_counters())
            sum += rail.control.fragments_sent;
        return sum;
    }
    /// With nobody driving the target, which has no thread.
    void drive_alone(Transfer& transfer, milliseconds time) {
        const auto end = Clock::now() + time;
        while (Clock::now() < end)
            static_cast<void>(pair_->a->poll(transfer));
    }
    std::uint64_t operations_of(Transfer& transfer) {
        const std::uint64_t before = operations();
        EXPECT_EQ(pair_->run(transfer), Status::ok);
        pair_->a->release(&transfer);
        return operations() - before;
    }
    void expect_ordinary(Transfer* transfer, std::size_t told, const char* what,
                         const std::string* text = nullptr) {
        const std::uint64_t before = operations();
        Status status = pair_->a->post(*transfer, text);
        if (status == Status::in_progress) status = pair_->wait(*transfer);
        EXPECT_EQ(status, Status::ok) << what;
        pair_->notifications(told);
        EXPECT_GT(operations(), before) << what;
        pair_->a->release(transfer);
    }

    std::unique_ptr<Buffer> source_, target_;
    std::shared_ptr<RemoteRegion> remote_;
    std::unique_ptr<EnginePair> pair_;  // goes first: what sleeps may still take what has come
};

}  // namespace railyard::test
