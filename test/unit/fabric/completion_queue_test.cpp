// The completion queue against a provider that answers what none should: nothing loops, nothing floods the
// log, and who owns the queue can see that it is broken.
#include "fabric/completion_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "counted_operation.h"
#include "log_lines.h"

namespace railyard::fabric {
namespace completion_queue_test {

struct ErrorEntry {
    void* context = nullptr;
    int error = 0;
    int provider_error = 0;
    ssize_t answer = 1;  // of fi_cq_readerr
};

/// What the scripted provider answers and has been asked. One at a time.
struct Script {
    std::deque<ssize_t> reads;  // one each call, then `otherwise`
    ssize_t otherwise = -FI_EAGAIN;
    std::deque<ErrorEntry> errors;
    ssize_t no_error = 0;  // fi_cq_readerr's answer when there is none
    std::size_t calls = 0;
};
Script script;

ssize_t scripted_read(fid_cq*, void*, std::size_t) {
    ++script.calls;
    if (!script.errors.empty()) return -FI_EAVAIL;
    if (script.reads.empty()) return script.otherwise;
    const ssize_t answer = script.reads.front();
    script.reads.pop_front();
    return answer;
}

ssize_t scripted_readerr(fid_cq*, fi_cq_err_entry* entry, std::uint64_t) {
    if (script.errors.empty()) return script.no_error;
    const ErrorEntry error = script.errors.front();
    script.errors.pop_front();
    entry->op_context = error.context;
    entry->err = error.error;
    entry->prov_errno = error.provider_error;
    return error.answer;
}

const char* scripted_strerror(fid_cq*, int, const void*, char*, std::size_t) {
    return "scripted";
}

struct Operation : CountedOperation {
    Operation() { posted = true; }
};

class CompletionQueueTest : public testing::Test {
  protected:
    /// `codes`: whose errors the provider's are taken for.
    explicit CompletionQueueTest(Codes codes = Codes::unread)
        : domain_(device(codes), "rail"),
          queue_(domain_, 64, false),
          real_(queue_.get()->ops),
          scripted_(*real_) {
        script = {};
        scripted_.read = scripted_read;
        scripted_.readerr = scripted_readerr;
        scripted_.strerror = scripted_strerror;
        queue_.get()->ops = &scripted_;
    }
    ~CompletionQueueTest() override { queue_.get()->ops = real_; }

    static std::shared_ptr<const Device> device(Codes codes) {
        Device device = std::move(discover("tcp", parse_device_filter("lo")).front());
        device.caps.codes = codes;
        return std::make_shared<const Device>(std::move(device));
    }

    Domain domain_;
    CompletionQueue queue_;
    fi_ops_cq* real_;
    fi_ops_cq scripted_;
    test::LogLines log_;
};

TEST_F(CompletionQueueTest, AnAnswerNeverSeenIsCountedSaidNowAndThenAndCalledBroken) {
    script.otherwise = -98'765;
    EXPECT_FALSE(queue_.broken());
    for (std::uint32_t i = 1; i < CompletionQueue::most_failures; ++i)
        EXPECT_EQ(queue_.drain(64), 0u);
    EXPECT_FALSE(queue_.broken());
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(queue_.drain(64), 0u);
    EXPECT_TRUE(queue_.broken());
    EXPECT_EQ(script.calls, CompletionQueue::most_failures - 1 + 1000) << "it must not try again by itself";
    EXPECT_EQ(log_.count("fi_cq_read: "), 10) << "1, 2, 4, ... 512 of 1007";
    EXPECT_EQ(log_.count("is broken"), 1);
}

TEST_F(CompletionQueueTest, OneOddAnswerAmongGoodOnesIsNoEnd) {
    for (int i = 0; i < 100; ++i) {
        script.reads = {-FI_EINVAL};
        queue_.drain(64);
        queue_.drain(64);  // EAGAIN
    }
    EXPECT_FALSE(queue_.broken());
}

TEST_F(CompletionQueueTest, AQueueThatWasOverrunIsBrokenAtOnce) {
    script.reads = {-FI_EOVERRUN};
    queue_.drain(64);
    EXPECT_TRUE(queue_.broken());
}

TEST_F(CompletionQueueTest, AnnouncedErrorsThatCannotBeReadDoNotHoldTheRoundUp) {
    for (const ssize_t answer : {ssize_t{0}, ssize_t{-FI_EAGAIN}, ssize_t{-FI_EINVAL}}) {
        script.calls = 0;
        script.otherwise = -FI_EAVAIL;
        script.no_error = answer;
        EXPECT_EQ(queue_.drain(64), 0u) << "it would look like work";
        EXPECT_EQ(script.calls, 1u);
    }
    for (std::uint32_t i = 0; i < CompletionQueue::most_failures; ++i)
        queue_.drain(64);
    EXPECT_TRUE(queue_.broken());
}

TEST_F(CompletionQueueTest, ErrorsWithoutContextAreWorkedOffInBoundedRounds) {
    Operation operation;
    script.errors.assign(100, ErrorEntry{nullptr, FI_EIO, 7});
    script.errors.push_back({&operation, FI_EIO, 7});
    EXPECT_EQ(queue_.drain(64), 64u);
    EXPECT_EQ(queue_.drain(64), 37u);
    EXPECT_EQ(operation.ends, 1);
    EXPECT_FALSE(queue_.broken());
}

TEST_F(CompletionQueueTest, AnUnknownProviderErrorEndsItsOperationOnce) {
    Operation operation;
    script.errors.push_back({&operation, 123'456, -98'765});
    queue_.drain(64);
    queue_.drain(64);
    EXPECT_EQ(operation.ends, 1);
    EXPECT_EQ(operation.completion.status, Status::backend);
    EXPECT_EQ(operation.completion.provider_error, -98'765);
    EXPECT_FALSE(operation.completion.receiver_not_ready);
}

/// As libfabric 1.17's tcp answers a READ whose connection breaks.
TEST_F(CompletionQueueTest, ASecondAnswerForAnOperationIsDropped) {
    Operation operation;
    script.errors.push_back({&operation, FI_ECANCELED, 0});
    script.errors.push_back({&operation, FI_EIO, 0});
    EXPECT_EQ(queue_.drain(64), 2u);
    EXPECT_EQ(operation.ends, 1);
    EXPECT_EQ(operation.completion.error, FI_ECANCELED);
}

TEST_F(CompletionQueueTest, AMissingReceiveBufferIsTold) {
    Operation operation;
    script.errors.push_back({&operation, FI_ENORX, 10});
    queue_.drain(64);
    EXPECT_TRUE(operation.completion.receiver_not_ready);
    operation.posted = true;
    script.errors.push_back({&operation, FI_EIO, 10});
    queue_.drain(64);
    EXPECT_FALSE(operation.completion.receiver_not_ready) << "10 is EFA's, and this is tcp";
    EXPECT_TRUE(receiver_not_ready(Codes::efa, FI_EIO, 10));
}

class CxiCompletionQueueTest : public CompletionQueueTest {
  protected:
    CxiCompletionQueueTest() : CompletionQueueTest(Codes::cxi) {}
};

TEST_F(CxiCompletionQueueTest, APeerWhoseProcessHasGoneIsGone) {
    Operation operation;
    script.errors.push_back({&operation, FI_EIO, 26});
    queue_.drain(64);
    EXPECT_EQ(operation.completion.status, Status::remote_disconnect);
    EXPECT_EQ(operation.completion.provider_error, 26);
}

TEST_F(CompletionQueueTest, AnInterruptedReadIsNoFailure) {
    script.otherwise = -FI_EINTR;
    for (int i = 0; i < 100; ++i)
        queue_.drain(64);
    EXPECT_FALSE(queue_.broken());
    EXPECT_EQ(log_.count(), 0);
}

}  // namespace completion_queue_test
}  // namespace railyard::fabric
