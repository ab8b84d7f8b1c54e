// Connections: made when they are needed, told of once when they cannot be, and gone without a trace.
#include "fabric/connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "counted_operation.h"
#include "fabric/endpoint.h"
#include "fabric/wait_set.h"
#include "left_open.h"
#include "log_lines.h"
#include "loopback_listener.h"

namespace railyard::fabric {
namespace {

using Clock = std::chrono::steady_clock;
using test::open_files;

std::shared_ptr<const Device> loopback() {
    return std::make_shared<const Device>(std::move(discover("tcp-msg", parse_device_filter("lo")).front()));
}

struct Operation : CountedOperation {
    std::array<char, 64> bytes{};
};

/// One rail of a process.
struct Side {
    Side()
        : domain(loopback(), "rail"),
          queues(domain, {.received = 256, .sent = 256}, true),
          wait(domain, queues),
          addresses(domain),
          receiver(domain, queue, addresses),
          sender(std::make_unique<Endpoint>(domain, queue, addresses, Endpoint::Duty::send)) {}

    void pass() {
        queue.drain(64);
        domain.drain_events();
    }
    PostResult send(Operation& operation, fi_addr_t to) const {
        return sender->post_send(operation, operation.bytes.data(), operation.bytes.size(), nullptr, to);
    }

    Domain domain;
    CompletionQueues queues;
    CompletionQueue& queue = queues.received();
    WaitSet wait;
    AddressVector addresses;
    Endpoint receiver;
    std::unique_ptr<Endpoint> sender;
};

/// Passes over all of `sides` until `over`; false after `limit`.
template <class Over>
bool pass_until(std::initializer_list<Side*> sides, Over over,
                std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    for (const auto end = Clock::now() + limit; !over();) {
        if (Clock::now() > end) return false;
        for (Side* side : sides)
            side->pass();
    }
    return true;
}

/// Sends one message from one to the other, which makes a connection where there is none.
void meet(Side& from, Side& to, fi_addr_t destination) {
    Operation sent, received;
    ASSERT_EQ(to.receiver.post_receive(received, received.bytes.data(), received.bytes.size(), nullptr),
              PostResult::ok);
    sent.bytes[5] = 'x';
    ASSERT_TRUE(pass_until({&from, &to}, [&] { return from.send(sent, destination) == PostResult::ok; }));
    ASSERT_TRUE(pass_until({&from, &to}, [&] { return sent.ends && received.ends; }));
    EXPECT_EQ(sent.completion.status, Status::ok);
    EXPECT_EQ(received.completion.status, Status::ok);
    EXPECT_EQ(received.completion.length, received.bytes.size());
    EXPECT_EQ(received.bytes[5], 'x');
}

TEST(Connections, TheFirstPostMakesOneAndIsToldToComeAgain) {
    Side a, b;
    const fi_addr_t there = a.addresses.insert(b.receiver.name());
    Operation sent;
    EXPECT_EQ(a.send(sent, there), PostResult::again);
    meet(a, b, there);
    const std::size_t files = open_files();
    for (int i = 0; i < 10; ++i)
        meet(a, b, there);
    EXPECT_EQ(open_files(), files) << "one a peer";
}

TEST(Connections, WhoIsNotThereIsToldOfOnceEachAttempt) {
    Side a;
    std::string nobody;
    {
        const Side gone;
        nobody = gone.receiver.name();
    }
    const fi_addr_t there = a.addresses.insert(nobody);
    Operation sent;
    for (int attempt = 0; attempt < 3; ++attempt) {
        EXPECT_EQ(a.send(sent, there), PostResult::again);
        auto result = PostResult::again;
        ASSERT_TRUE(pass_until({&a}, [&] { return (result = a.send(sent, there)) != PostResult::again; }));
        EXPECT_EQ(result, PostResult::failed);
        EXPECT_EQ(a.sender->last_error(), FI_ECONNREFUSED);
    }
    EXPECT_EQ(a.domain.event_errors(), 0u) << "nothing is wrong with the device";
}

TEST(Connections, OperationsAllEndWithTheOneTheyAreOn) {
    Side a;
    auto b = std::make_unique<Side>();
    const fi_addr_t there = a.addresses.insert(b->receiver.name());
    meet(a, *b, there);
    std::vector<Operation> sent(100);
    for (Operation& operation : sent)
        ASSERT_EQ(a.sender->post_confirmed_send(operation, operation.bytes.data(), operation.bytes.size(),
                                                nullptr, there),
                  PostResult::ok);
    b.reset();  // nobody has received any
    const auto over = [&] {
        return std::all_of(sent.begin(), sent.end(), [](const Operation& one) { return one.ends == 1; });
    };
    EXPECT_TRUE(pass_until({&a}, over));
    for (const Operation& operation : sent)
        EXPECT_EQ(operation.completion.status, Status::remote_disconnect);
    Operation next;
    auto result = PostResult::again;
    EXPECT_TRUE(pass_until({&a}, [&] { return (result = a.send(next, there)) != PostResult::again; }));
    EXPECT_EQ(result, PostResult::failed) << "asked anew, and refused";
}

TEST(Connections, ASenderThatIsClosedGivesBackWhatItHad) {
    Side a, b;
    const fi_addr_t there = a.addresses.insert(b.receiver.name());
    meet(a, b, there);
    std::vector<Operation> sent(100);
    for (Operation& operation : sent) {
        operation.bytes[5] = 'x';  // what has left may still arrive
        ASSERT_EQ(a.sender->post_confirmed_send(operation, operation.bytes.data(), operation.bytes.size(),
                                                nullptr, there),
                  PostResult::ok);
    }
    a.sender.reset();
    a.pass();
    for (const Operation& operation : sent)
        EXPECT_LE(operation.ends, 1);
    a.sender = std::make_unique<Endpoint>(a.domain, a.queue, a.addresses, Endpoint::Duty::send);
    meet(a, b, there);
}

TEST(Connections, PeersComeAndGoAndLeaveNothing) {
    Side b;
    const auto come_and_go = [&] {
        Side a;
        meet(a, b, a.addresses.insert(b.receiver.name()));
    };
    come_and_go();
    std::size_t files = 0;
    const auto quiet = [&] {
        files = open_files();
        for (int i = 0; i < 1000; ++i)
            b.pass();
        return open_files() == files;
    };
    ASSERT_TRUE(pass_until({&b}, quiet));
    const std::size_t before = files;
    for (int i = 0; i < 20; ++i)
        come_and_go();
    EXPECT_TRUE(pass_until({&b}, [&] { return open_files() <= before; })) << open_files() - before << " more";
}

TEST(Connections, WhatIsForgottenIsClosedAndMadeAgainForAnother) {
    Side a, b;
    const fi_addr_t first = a.addresses.insert(b.receiver.name());
    const std::size_t before = open_files();
    meet(a, b, first);
    EXPECT_EQ(open_files(), before + 2);
    ASSERT_TRUE(a.addresses.remove(first));
    EXPECT_EQ(a.addresses.destination_of(first), "");
    a.sender->forget(first);
    EXPECT_TRUE(pass_until({&a, &b}, [&] { return open_files() == before; }));
    const fi_addr_t second = a.addresses.insert(b.receiver.name());
    EXPECT_NE(second, first) << "late users of the old one must not reach somebody else";
    EXPECT_EQ(a.addresses.destination_of(second), b.receiver.name());
    meet(a, b, second);
}

TEST(Connections, AnAttemptThatIsNotAnsweredIsGivenUpForAnother) {
    // A queue of connections that nobody accepts, and that is full: the kernel drops who asks then.
    const test::LoopbackListener listener(0);
    std::array<int, 4> others{};
    for (int& other : others) {
        other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        static_cast<void>(listener.connect_from(other));
    }
    const test::LogLines log(log::Level::debug);
    Side a;
    const fi_addr_t there = a.addresses.insert(listener.name());
    Operation sent;
    const auto begun = Clock::now();
    const auto twice = [&] {
        EXPECT_NE(a.send(sent, there), PostResult::ok);
        return test::LogLines::count("connects to a peer") >= 2;
    };
    EXPECT_TRUE(pass_until({&a}, twice));
    EXPECT_GE(Clock::now() - begun, std::chrono::nanoseconds(Connections::attempt_ns));
    for (const int other : others)
        close(other);
}

TEST(Connections, WhoeverSleepsIsWokenByARequestAndByAMessage) {
    Side a, b;
    ASSERT_GE(b.wait.fd(), 0);
    const auto readable = [&] {
        pollfd waiting{b.wait.fd(), POLLIN, 0};
        return poll(&waiting, 1, 0) == 1;
    };
    const auto asleep = [&] { return b.wait.may_wait() && !readable(); };
    ASSERT_TRUE(pass_until({&b}, asleep));
    const fi_addr_t there = a.addresses.insert(b.receiver.name());
    Operation sent, received;
    EXPECT_EQ(a.send(sent, there), PostResult::again);
    EXPECT_TRUE(pass_until({&a}, readable));
    ASSERT_EQ(b.receiver.post_receive(received, received.bytes.data(), received.bytes.size(), nullptr),
              PostResult::ok);
    ASSERT_TRUE(pass_until({&a, &b}, [&] { return a.send(sent, there) == PostResult::ok; }));
    ASSERT_TRUE(pass_until({&a, &b}, [&] { return received.ends == 1; }));
    ASSERT_TRUE(pass_until({&a, &b}, asleep));
    Operation more;
    ASSERT_EQ(b.receiver.post_receive(received, received.bytes.data(), received.bytes.size(), nullptr),
              PostResult::ok);
    ASSERT_EQ(a.send(more, there), PostResult::ok);
    EXPECT_TRUE(pass_until({&a}, readable));
}

}  // namespace
}  // namespace railyard::fabric
