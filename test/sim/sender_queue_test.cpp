// The completion queue that a sender of fabric efa-direct has to itself.
#include <poll.h>

#include <array>
#include <memory>
#include <vector>

#include "../unit/fabric/counted_operation.h"
#include "fabric/address_vector.h"
#include "fabric/endpoint.h"
#include "fabric/memory_region.h"
#include "fabric/wait_set.h"
#include "failover.h"

namespace railyard::test {
namespace sender_queue_test {

using fabric::CountedOperation;
using fabric::Endpoint;

std::shared_ptr<const fabric::Device> one_nic() {
    auto devices = fabric::discover("efa-direct", fabric::parse_device_filter("rdmap79s0"));
    return std::make_shared<const fabric::Device>(std::move(devices.at(0)));
}

/// A receiver and a sender of one rail, which reads the rail's own memory.
class SenderQueue : public testing::Test {
  protected:
    void open_sender() {
        queues_.open_sent();
        wait_.watch_sent();
        sender_.reset();
        addresses_ = std::make_unique<fabric::AddressVector>(domain_);  // it takes one endpoint ever
        sender_ = std::make_unique<Endpoint>(domain_, queues_.sent(), *addresses_, Endpoint::Duty::send);
        static_cast<void>(callers_.insert(sender_->name()));
        peer_ = addresses_->insert(receiver_.name());
    }
    void read(CountedOperation& operation) {
        const auto base = reinterpret_cast<std::uint64_t>(memory_.data());
        fabric::RmaRow row(*sender_, peer_, Endpoint::Direction::read);
        const fabric::RmaPiece piece{base, 8, region_.descriptor(), base + 64 - region_.address_base(),
                                     region_.key()};
        ASSERT_EQ(row.post(operation, piece, false), fabric::PostResult::ok);
    }
    [[nodiscard]] bool wakes_within(int limit_ms) const {
        pollfd waited{wait_.fd(), POLLIN, 0};
        return ::poll(&waited, 1, limit_ms) == 1;
    }
    void drain_until_it_may_wait() {
        for (int i = 0; i < 1000 && !wait_.may_wait(); ++i)
            queues_.drain(64, true);
    }

    fabric::Domain domain_{one_nic(), "rail"};
    fabric::CompletionQueues queues_{domain_, {.received = 64, .sent = 64}, true};
    fabric::WaitSet wait_{domain_, queues_};
    fabric::AddressVector callers_{domain_};
    Endpoint receiver_{domain_, queues_.received(), callers_};
    std::array<std::byte, 128> memory_{};
    const fabric::MemoryRegion region_{
        domain_, receiver_, {reinterpret_cast<std::uint64_t>(memory_.data()), memory_.size()}};
    std::unique_ptr<fabric::AddressVector> addresses_;
    std::unique_ptr<Endpoint> sender_;
    fi_addr_t peer_ = 0;
};

TEST_F(SenderQueue, IsWaitedForAndSoIsTheNextOne) {
    ASSERT_TRUE(queues_.has_own_sent());
    ASSERT_GE(wait_.fd(), 0);
    for (int sender = 0; sender < 3; ++sender) {
        open_sender();
        drain_until_it_may_wait();
        ASSERT_FALSE(wakes_within(0)) << sender;
        CountedOperation operation;
        read(operation);
        ASSERT_TRUE(wakes_within(10'000)) << sender;
        queues_.drain(64, true);
        EXPECT_EQ(operation.ends, 1) << sender;
        sender_.reset();
        EXPECT_TRUE(queues_.close_sent());
        EXPECT_EQ(queues_.own_sent(), nullptr);
        drain_until_it_may_wait();
        EXPECT_TRUE(wait_.may_wait()) << "with what there is";
    }
}

/// What its device says of them is nobody's.
TEST_F(SenderQueue, GoesWithWhatItsSenderWasClosedWith) {
    open_sender();
    std::vector<CountedOperation> operations(16);
    {
        const Disturbance slow("latency_us=100000", first_of_a);
        for (CountedOperation& operation : operations)
            read(operation);
        sender_.reset();
        queues_.close_sent();
    }
    queues_.drain_whole(1024);
    open_sender();
    CountedOperation next;
    read(next);
    for (int i = 0; i < 1'000'000 && next.ends == 0; ++i)
        queues_.drain(64, true);
    EXPECT_EQ(next.ends, 1);
    for (const CountedOperation& operation : operations)
        EXPECT_EQ(operation.ends, 0);
}

TEST_F(SenderQueue, IsLookedAtNowAndThenWhileNothingIsUnderWay) {
    open_sender();
    CountedOperation operation;
    read(operation);
    for (int i = 0; i < 200 && operation.ends == 0; ++i) {
        queues_.drain(64, false);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(operation.ends, 1);
}

}  // namespace sender_queue_test
}  // namespace railyard::test
