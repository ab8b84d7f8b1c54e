// Several real processes: passive targets, sleeping ones, killed ones, leftovers.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "child_process.h"
#include "control.h"
#include "provider/clock.h"
#include "side.h"

namespace simefa::test {
namespace {

using Clock = std::chrono::steady_clock;

class Process : public testing::Test {
  protected:
    Process() { control.set("timeout_ms=30"); }
    ~Process() override { control.reset(); }
    Control control;
};

// First in this file: the provider reads its seed once per process, and children inherit what their parent
// has read.
int fault_pattern(Channel& channel) {
    std::string text;
    Pair pair;
    for (int i = 0; i < 64; ++i) {
        if (pair.write(0, 8) != 0) return 2;
        text += pair.wait_left().status == 0 ? '.' : 'x';
    }
    channel.send(text);
    return 0;
}

TEST_F(Process, TheSameSeedGivesTheSameFaults) {
    control.set("error_probability=0.3");
    std::string patterns[3];
    for (int i = 0; i < 3; ++i) {
        setenv("SIMEFA_SEED", i < 2 ? "5" : "6", 1);
        ChildProcess child(fault_pattern);
        patterns[i] = child.channel().receive();
    }
    unsetenv("SIMEFA_SEED");
    EXPECT_EQ(patterns[0], patterns[1]);
    EXPECT_NE(patterns[0], patterns[2]);
    EXPECT_NE(patterns[0].find('x'), std::string::npos);
}

/// What a target tells the initiator.
struct Invitation {
    char name[32];
    std::uint64_t address, key;
};

std::string pack(const Side& side, const void* address, fid_mr* region) {
    Invitation invitation{};
    std::memcpy(invitation.name, side.name().data(), sizeof(invitation.name));
    invitation.address = reinterpret_cast<std::uint64_t>(address);
    invitation.key = fi_mr_key(region);
    return {reinterpret_cast<const char*>(&invitation), sizeof(invitation)};
}

Invitation unpack(const std::string& text) {
    Invitation invitation{};
    std::memcpy(&invitation, text.data(), std::min(text.size(), sizeof(invitation)));
    return invitation;
}

std::string name_of(const Invitation& invitation) {
    return {invitation.name, sizeof(invitation.name)};
}

constexpr std::size_t size = 1 << 20;

/// A target that registers a buffer, does nothing for libfabric, and says what is in its buffer when asked.
int passive_target(Channel& channel) {
    Side side;
    std::vector<std::uint8_t> bytes(size);
    fid_mr* region = side.add_region(bytes.data(), bytes.size());
    channel.send(pack(side, bytes.data(), region));
    side.insert(channel.receive());
    channel.send("ready");
    for (;;) {
        const std::string order = channel.receive();
        if (order == "end") return 0;
        if (order == "fill") fill(bytes, 5);
        if (order == "close region") side.close_region(region);
        std::vector<std::uint8_t> expected(size);
        fill(expected, 1);
        channel.send(bytes == expected ? "same" : "different");
    }
}

struct Initiator {
    explicit Initiator(Channel& channel, unsigned nic = 1) : side({.nic = nic}), bytes(size) {
        fill(bytes, 1);
        region = side.add_region(bytes.data(), bytes.size());
        target = unpack(channel.receive());
        peer = side.insert(name_of(target));
        channel.send(side.name());
        EXPECT_EQ(channel.receive(), "ready");
    }
    ssize_t write(std::size_t offset, std::size_t length) {
        return side.write(bytes.data() + offset, length, region, peer, target.address + offset, target.key);
    }
    Side side;
    std::vector<std::uint8_t> bytes;
    fid_mr* region;
    Invitation target;
    fi_addr_t peer;
};

std::string ask(ChildProcess& child, const std::string& order) {
    child.channel().send(order);
    return child.channel().receive();
}

TEST_F(Process, APassiveTargetIsWrittenToAndReadFrom) {
    ChildProcess child(passive_target);
    {
        Initiator initiator(child.channel());
        ASSERT_EQ(initiator.write(0, size), 0);
        EXPECT_EQ(initiator.side.wait().status, 0);
        EXPECT_EQ(ask(child, "look"), "same");
        EXPECT_EQ(ask(child, "fill"), "different");
        ASSERT_EQ(initiator.side.read(initiator.bytes.data(), size, initiator.region, initiator.peer,
                                      initiator.target.address, initiator.target.key),
                  0);
        EXPECT_EQ(initiator.side.wait().status, 0);
        std::vector<std::uint8_t> expected(size);
        fill(expected, 5);
        EXPECT_EQ(initiator.bytes, expected);
    }
    child.channel().send("end");
    EXPECT_EQ(child.join(), 0);
}

TEST_F(Process, ADeregisteredRegionRefuses) {
    ChildProcess child(passive_target);
    Initiator initiator(child.channel());
    EXPECT_EQ(ask(child, "close region"), "different");
    ASSERT_EQ(initiator.write(0, 8), 0);
    EXPECT_EQ(initiator.side.wait().status, 7);
}

/// Writes until the target goes, from the target's start to after its death; all but the first errors are 13.
TEST_F(Process, AKilledTargetIsUnresponsive) {
    ChildProcess child(passive_target);
    Initiator initiator(child.channel());
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(initiator.write(0, 4096), 0);
    child.kill();
    ASSERT_EQ(initiator.write(0, 8), 0);
    int failed = 0;
    for (int i = 0; i < 101; ++i) {
        const Done done = initiator.side.wait();
        if (done.status == 0) continue;
        EXPECT_EQ(done.status, 13);
        ++failed;
    }
    EXPECT_GT(failed, 0);
    const auto start = Clock::now();
    ASSERT_EQ(initiator.write(0, 8), 0);
    EXPECT_EQ(initiator.side.wait().status, 13);
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
}

int never_polling_target(Channel& channel) {
    SideOptions options;
    options.fabric = "efa";
    Side side(options);
    std::vector<std::uint8_t> bytes(64);
    channel.send(pack(side, bytes.data(), side.add_region(bytes.data(), bytes.size())));
    channel.receive();
    return 0;
}

TEST_F(Process, APeerThatDiesBeforeItsHandshakeIsUnresponsive) {
    ChildProcess child(never_polling_target);
    const Invitation target = unpack(child.channel().receive());
    SideOptions options;
    options.fabric = "efa";
    Side side(options);
    const fi_addr_t peer = side.insert(name_of(target));
    char bytes[8] = {};
    ASSERT_EQ(side.write(bytes, sizeof(bytes), nullptr, peer, target.address, target.key), 0);
    EXPECT_TRUE(side.quiet_for(20)) << "a peer that only sleeps is no dead one";
    child.kill();
    EXPECT_EQ(side.wait(2000).status, 13);
}

int sleeping_target(Channel& channel) {
    Side side;
    std::vector<std::uint8_t> bytes(4096);
    fid_mr* region = side.add_region(bytes.data(), bytes.size());
    if (fi_recv(side.endpoint, bytes.data(), 64, fi_mr_desc(region), FI_ADDR_UNSPEC, nullptr) != 0) return 2;
    channel.send(pack(side, bytes.data(), region));
    side.insert(channel.receive());
    fi_cq_tagged_entry entry;
    int got = 0;
    channel.send("ready");
    while (got < 2) {
        if (fi_cq_sread(side.queue, &entry, 1, nullptr, 60'000) != 1) return 3;
        ++got;
        channel.send(entry.flags & FI_REMOTE_CQ_DATA ? "notice" : "message");
    }
    return 0;
}

TEST_F(Process, ASleepingTargetIsWoken) {
    ChildProcess child(sleeping_target);
    Initiator initiator(child.channel());
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5));  // let it fall asleep; right also when it did not
    ASSERT_EQ(fi_send(initiator.side.endpoint, initiator.bytes.data(), 8, fi_mr_desc(initiator.region),
                      initiator.peer, nullptr),
              0);
    EXPECT_EQ(initiator.side.wait().status, 0);
    EXPECT_EQ(child.channel().receive(), "message");
    ASSERT_EQ(initiator.side.write(initiator.bytes.data(), 8, initiator.region, initiator.peer,
                                   initiator.target.address + 1024, initiator.target.key,
                                   FI_COMPLETION | FI_REMOTE_CQ_DATA),
              0);
    EXPECT_EQ(initiator.side.wait().status, 0);
    EXPECT_EQ(child.channel().receive(), "notice");
    EXPECT_EQ(child.join(), 0);
}

/// Sends and writes for ever; the parent kills it at any instant.
int firing_initiator(Channel& channel) {
    Initiator initiator(channel, 2);
    for (unsigned i = 0;; ++i) {
        if (i % 2) {
            initiator.write(0, 100'000);
        } else {
            (void)fi_send(initiator.side.endpoint, initiator.bytes.data(), 4000, fi_mr_desc(initiator.region),
                          initiator.peer, nullptr);
        }
        if (!initiator.side.poll()) std::this_thread::yield();
    }
}

TEST_F(Process, KilledInitiatorsStallNobody) {
    Side side;
    std::vector<std::uint8_t> bytes(size);
    fid_mr* region = side.add_region(bytes.data(), bytes.size());
    constexpr int buffers = 64;
    auto receive = [&](std::size_t index) {
        ASSERT_EQ(fi_recv(side.endpoint, bytes.data() + index * 4096, 4096, fi_mr_desc(region),
                          FI_ADDR_UNSPEC, bytes.data() + index * 4096),
                  0);
    };
    for (std::size_t i = 0; i < buffers; ++i)
        receive(i);
    auto receive_until = [&](Clock::time_point end) {
        while (Clock::now() < end) {
            const auto done = side.poll();
            if (done && done->context)
                receive((static_cast<std::uint8_t*>(done->context) - bytes.data()) / 4096);
            if (!done) std::this_thread::yield();
        }
    };
    Random random(3);
    for (int round = 0; round < 25; ++round) {
        ChildProcess child(firing_initiator);
        child.channel().send(pack(side, bytes.data(), region));
        side.insert(child.channel().receive());
        child.channel().send("ready");
        const auto end = Clock::now() + std::chrono::microseconds(500 + random.below(8000));
        receive_until(end);
        child.kill();
        // Deregistration is not held up by the dead.
        fid_mr* other = side.add_region(bytes.data(), 64);
        side.close_region(other);
    }
    // All buffers are still ours: as many messages as there are buffers come through. The last one may have
    // died with one in its hand, for which a look each millisecond makes up.
    receive_until(Clock::now() + std::chrono::milliseconds(20));
    Side last{{.nic = 3}};
    const fi_addr_t peer = last.insert(side.name());
    char text[8] = "hello";
    fid_mr* local = last.add_region(text, sizeof(text));
    for (int i = 0; i < buffers; ++i) {
        ASSERT_EQ(fi_send(last.endpoint, text, sizeof(text), fi_mr_desc(local), peer, nullptr), 0);
        EXPECT_EQ(last.wait(2000).status, 0) << i;
    }
    for (int i = 0; i < buffers; ++i)
        EXPECT_EQ(side.wait(2000).length, sizeof(text)) << i;
}

/// Whoever takes memory away waits for those who are just reaching into it, and some of these never go on.
TEST_F(Process, StoppedInitiatorsHoldUpNobody) {
    Random random(5);
    for (int round = 0; round < 25; ++round) {
        Side side;
        std::vector<std::uint8_t> bytes(size);
        fid_mr* region = side.add_region(bytes.data(), bytes.size());
        ChildProcess child(firing_initiator);
        child.channel().send(pack(side, bytes.data(), region));
        side.insert(child.channel().receive());
        child.channel().send("ready");
        const auto end = Clock::now() + std::chrono::microseconds(2000 + random.below(2000));
        while (Clock::now() < end)
            if (!side.poll()) std::this_thread::yield();
        child.stop();
        const auto begun = Clock::now();
        side.close_region(region);
        side.close_endpoint();
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
        child.kill();
    }
}

TEST_F(Process, LeftoversOfTheKilledAreSwept) {
    {
        ChildProcess child(passive_target);
        child.channel().receive();
        child.kill();
    }
    auto files = [&] {
        std::size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(control.directory()))
            count += entry.path().filename().string().find('-') != std::string::npos;
        return count;
    };
    EXPECT_GT(files(), 1U);
    EXPECT_GT(control.sweep(), 0U);
    EXPECT_EQ(files(), 1U) << "this process's own";
}

TEST_F(Process, WhoeverAttachesSweeps) {
    {
        ChildProcess child(passive_target);
        child.channel().receive();
        child.kill();
    }
    Side side;
    EXPECT_EQ(control.sweep(), 0U);
}

}  // namespace
}  // namespace simefa::test
