// Copies between two processes, and when there must be none.
#include "rail/host_rail.h"

#include <gtest/gtest.h>
#include <linux/sched.h>

#include <cstring>
#include <numeric>
#include <random>

#include "common/status.h"
#include "host_process.h"
#include "taking_rail.h"

namespace railyard {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

/// Offset and length in both memories.
struct Block {
    std::uint64_t here = 0, there = 0;
    std::uint32_t length = 0;
};

/// A transfer of one lane between our memory and the other process's.
class HostTransfer {
  public:
    HostTransfer(HostRail& rail, OtherProcess& other, PeerAddress peer, std::vector<char>& ours)
        : rail_(rail), other_(other), ours_(ours) {
        routes_[0].rail = &rail;
        routes_[0].destination = peer;
        routes_[0].path = &paths[0];
        routes_[0].keys = {{other.key, 0}};
        routes_[1].rail = &fabric;
        routes_[1].path = &paths[1];
    }
    void prepare(Work::Kind kind, const std::vector<Block>& blocks) {
        work.kind = kind;
        for (const Block& block : blocks)
            work.chunks.push_back({reinterpret_cast<std::uint64_t>(ours_.data()) + block.here,
                                   other_.address + block.there, block.length, 0, 0});
        work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(blocks.size()));
        submission.lane = &work.lanes.front();
        submission.route = &routes_[0];
        submission.alternatives = routes_;
    }
    void set_key(std::uint64_t key) { routes_[0].keys = {{key, 0}}; }
    void post() {
        work.arm(1, nullptr);
        submission.rearm();
        rail_.submit(submission);
    }
    Status run() {
        post();
        for (int round = 0; !work.done() && round < 1000; ++round)
            rail_.progress();
        return work.done() ? work.status() : Status::in_progress;
    }

    Work work;
    Submission submission;
    std::array<Path, 2> paths;
    TakingRail fabric;

  private:
    HostRail& rail_;
    OtherProcess& other_;
    std::vector<char>& ours_;
    std::array<Route, 2> routes_;
};

class HostRailTest : public testing::Test {
  protected:
    static constexpr std::size_t size = 9 * mebi;

    HostRailTest() {
        std::mt19937 random(1);
        std::generate(ours_.begin(), ours_.end(), [&] { return static_cast<char>(random()); });
        peer_ = rail_.insert_peer(other_.card);
    }
    ~HostRailTest() override { rail_.remove_peer(peer_); }
    HostTransfer transfer() { return {rail_, other_, peer_, ours_}; }

    std::vector<char> ours_ = std::vector<char>(size);
    OtherProcess other_{size};
    HostRail rail_;
    PeerAddress peer_ = no_address;
};

const std::vector<std::pair<const char*, std::vector<Block>>>& shapes() {
    static const auto made = [] {
        std::vector<std::pair<const char*, std::vector<Block>>> all;
        all.push_back({"one byte", {{5, 7, 1}}});
        all.push_back({"unaligned", {{3, 4091, 12'345}}});
        all.push_back({"above a round", {{1, 2, 5 * mebi + 3}, {6 * mebi, 6 * mebi + 9, 777}}});
        std::vector<Block> many, touching, one_side;
        for (std::uint32_t i = 0; i < 3000; ++i) {
            many.push_back({i * 2049u, i * 2050u + 1, 1 + i % 2048});
            touching.push_back({i * 512u, i * 512u, 512});
            one_side.push_back({i * 512u, i * 1024u, 512});
        }
        all.push_back({"many", many});
        all.push_back({"touching", touching});
        all.push_back({"touching on our side", one_side});
        return all;
    }();
    return made;
}

TEST_F(HostRailTest, MovesEveryByteEitherWayAndNoOther) {
    for (const auto& [name, blocks] : shapes()) {
        SCOPED_TRACE(name);
        std::string expected = other_.memory();
        std::uint64_t bytes = 0;
        for (const Block& block : blocks) {
            std::copy_n(ours_.begin() + static_cast<std::ptrdiff_t>(block.here), block.length,
                        expected.begin() + static_cast<std::ptrdiff_t>(block.there));
            bytes += block.length;
        }
        HostTransfer write = transfer();
        write.prepare(Work::Kind::write, blocks);
        const RailCounters before = rail_.counters();
        EXPECT_EQ(write.run(), Status::ok);
        EXPECT_TRUE(other_.memory() == expected);
        const auto kind = static_cast<std::size_t>(Work::Kind::write);
        EXPECT_EQ(rail_.counters().operations[kind] - before.operations[kind], blocks.size());
        EXPECT_EQ(rail_.counters().bytes[kind] - before.bytes[kind], bytes);

        const std::vector<char> sent = ours_;
        for (const Block& block : blocks)
            std::fill_n(ours_.begin() + static_cast<std::ptrdiff_t>(block.here), block.length, '\0');
        HostTransfer read = transfer();
        read.prepare(Work::Kind::read, blocks);
        EXPECT_EQ(read.run(), Status::ok);
        EXPECT_TRUE(ours_ == sent);
    }
}

TEST_F(HostRailTest, ARoundIsBounded) {
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 8 * mebi}});
    write.post();
    EXPECT_FALSE(write.work.done());
    EXPECT_TRUE(rail_.has_work());
    int rounds = 1;
    for (; !write.work.done() && rounds < 100; ++rounds)
        EXPECT_EQ(rail_.progress(), Rail::Progress::worked);
    EXPECT_EQ(rounds, 7) << "8 MiB, of which the post moves two rounds' bytes at most";
    EXPECT_EQ(rail_.progress(), Rail::Progress::idle);
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(HostRailTest, ASmallTransferDoesNotWaitForALargeOne) {
    HostTransfer large = transfer(), small = transfer();
    large.prepare(Work::Kind::write, {{0, 0, 8 * mebi}});
    small.prepare(Work::Kind::write, {{0, 8 * mebi, 1000}});
    large.post();
    small.post();
    EXPECT_TRUE(small.work.done());
    EXPECT_FALSE(large.work.done());
    for (int round = 0; !large.work.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_TRUE(large.work.done());
}

TEST_F(HostRailTest, NothingMoreIsMovedOfWhatWasStopped) {
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 4 * mebi}, {4 * mebi, 4 * mebi, 4 * mebi}});
    write.post();
    write.work.stop(Status::canceled);
    const std::string before = other_.memory();
    for (int round = 0; !write.work.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_TRUE(write.work.done());
    EXPECT_EQ(write.work.status(), Status::canceled);
    EXPECT_TRUE(other_.memory() == before);
}

TEST_F(HostRailTest, AProcessThatIsStoppedNeedNotHelp) {
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 2 * mebi}});
    other_.send_signal(SIGSTOP);
    EXPECT_EQ(write.run(), Status::ok);
    other_.send_signal(SIGCONT);
    EXPECT_TRUE(std::equal(ours_.begin(), ours_.begin() + 2 * mebi, other_.memory().begin()));
}

TEST_F(HostRailTest, MemoryThatWasDeregisteredIsRefusedAndUntouched) {
    const std::string before = other_.memory();
    const std::vector<char> sent = ours_;
    other_.change(OtherProcess::deregister);
    for (const Work::Kind kind : {Work::Kind::write, Work::Kind::read}) {
        HostTransfer late = transfer();
        late.prepare(kind, {{0, 0, 1000}, {2000, 2000, 1000}});
        EXPECT_EQ(late.run(), Status::backend);
        EXPECT_TRUE(late.fabric.taken.empty()) << "it may not be tried another way";
        EXPECT_FALSE(late.paths[0].failed());
    }
    EXPECT_TRUE(other_.memory() == before);
    const std::uint64_t key = other_.change(OtherProcess::register_again);
    EXPECT_NE(key, other_.key);
    HostTransfer old = transfer(), current = transfer();
    old.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(old.run(), Status::backend);
    EXPECT_TRUE(other_.memory() == before);
    current.set_key(key);
    current.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(current.run(), Status::ok);
    EXPECT_GE(rail_.counters().failed, 3u);
}

TEST_F(HostRailTest, MemoryThatIsNotThereIsRefused) {
    other_.change(OtherProcess::unmap);
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(write.run(), Status::backend);
    EXPECT_TRUE(write.fabric.taken.empty()) << "a provider that copies by itself there would crash";
    EXPECT_FALSE(write.submission.kept_from_rail) << "it would get there with the next post";
    EXPECT_FALSE(write.paths[0].failed());
}

TEST_F(HostRailTest, MemoryKeptFromOtherProcessesIsLeftToOtherRails) {
    const auto secret = static_cast<int>(syscall(SYS_memfd_secret, 0));
    if (secret < 0) GTEST_SKIP() << "the kernel has no memfd_secret: " << std::strerror(errno);
    ASSERT_EQ(ftruncate(secret, 65'536), 0);
    OtherProcess other(65'536, '.', secret);
    close(secret);
    HostRail beside_shm(true);
    const auto move = [&](HostRail& rail, Work::Kind kind) {
        const PeerAddress peer = rail.insert_peer(other.card);
        HostTransfer transfer(rail, other, peer, ours_);
        transfer.prepare(kind, {{0, 0, 1000}, {2000, 2000, 7}});
        const Status status = transfer.run();
        EXPECT_EQ(transfer.submission.kept_from_rail, status == Status::ok) << "for the next post";
        EXPECT_EQ(transfer.fabric.taken.size(), status == Status::ok ? 2u : 0u);
        EXPECT_FALSE(transfer.paths[0].failed()) << "the peer's other memory is reached";
        rail.remove_peer(peer);
        return status;
    };
    for (const Work::Kind kind : {Work::Kind::write, Work::Kind::read}) {
        EXPECT_EQ(move(rail_, kind), Status::ok);
        EXPECT_EQ(move(beside_shm, kind), Status::backend) << "which would not get at it either";
    }
    other.change(OtherProcess::deregister);
    EXPECT_EQ(move(rail_, Work::Kind::read), Status::backend);
}

TEST_F(HostRailTest, AProcessThatHasEndedEndsIt) {
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 4 * mebi}, {4 * mebi, 4 * mebi, 1000}, {5 * mebi, 5 * mebi, 7}});
    write.post();
    ASSERT_FALSE(write.work.done());
    other_.end(SIGKILL);
    for (int round = 0; !write.work.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_TRUE(write.work.done());
    EXPECT_EQ(write.work.status(), Status::remote_disconnect);
    EXPECT_TRUE(write.paths[0].failed());
    EXPECT_TRUE(write.fabric.taken.empty());
    EXPECT_EQ(rail_.counters().disconnected, 1u);
    EXPECT_TRUE(rail_.has_ended(peer_));
    EXPECT_FALSE(rail_.reaches(peer_));
}

/// What `address` is refused for.
std::string refusal(HostRail& rail, const std::string& address) {
    try {
        rail.remove_peer(rail.insert_peer(address));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Nobody gets at its memory by its number then, and yet it lives on.
TEST_F(HostRailTest, AProcessWhoseMainThreadHasEndedIsLeftToOtherRails) {
    HostTransfer write = transfer(), late = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 4 * mebi}, {4 * mebi, 4 * mebi, 1000}});
    write.post();
    ASSERT_FALSE(write.work.done());
    other_.change(OtherProcess::end_main_thread);
    for (int i = 0; i < 5000 && rail_.reaches(peer_); ++i)
        usleep(1000);
    ASSERT_FALSE(rail_.reaches(peer_));
    EXPECT_FALSE(rail_.has_ended(peer_));
    for (int round = 0; !write.work.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_EQ(write.work.status(), Status::ok);
    EXPECT_EQ(write.fabric.taken, (std::vector<std::uint32_t>{0, 1}));
    late.prepare(Work::Kind::read, {{0, 0, 1000}});
    EXPECT_EQ(late.run(), Status::ok);
    EXPECT_EQ(late.fabric.taken.size(), 1u);
    EXPECT_NE(refusal(rail_, other_.card).find("its main thread has ended"), std::string::npos);
    other_.end(SIGKILL);
    EXPECT_TRUE(rail_.has_ended(peer_));
}

TEST_F(HostRailTest, WhatIsLeftGoesToOtherRailsInWholeChunks) {
    HostTransfer write = transfer(), alone = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 4 * mebi}, {4 * mebi, 4 * mebi, 1000}, {5 * mebi, 5 * mebi, 7}});
    write.post();
    ASSERT_FALSE(write.work.done());
    other_.change(OtherProcess::close_rail);
    for (int round = 0; !write.work.done() && round < 100; ++round)
        rail_.progress();
    EXPECT_EQ(write.work.status(), Status::ok);
    EXPECT_EQ(write.fabric.taken, (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(rail_.counters().failovers, 1u);
    EXPECT_EQ(rail_.counters().bytes[0] + rail_.counters().bytes[1], 0u) << "the other rail counts them";
    EXPECT_FALSE(rail_.has_ended(peer_));
    EXPECT_FALSE(rail_.reaches(peer_));
    alone.prepare(Work::Kind::write, {{0, 0, 1000}});
    alone.paths[1].fail();
    EXPECT_EQ(alone.run(), Status::remote_disconnect);
}

/// The process lives on, and may put anything where its memory was.
TEST_F(HostRailTest, ARailThatWasClosedIsNotWrittenTo) {
    const std::string before = other_.memory();
    other_.change(OtherProcess::close_rail);
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(write.run(), Status::ok) << "by the other rail";
    EXPECT_EQ(write.fabric.taken.size(), 1u);
    EXPECT_TRUE(write.paths[0].failed());
    EXPECT_TRUE(other_.memory() == before);
}

/// Shm would write to whatever has that number now.
TEST_F(HostRailTest, WhereTheFabricCopiesAlikeARailThatWasClosedEndsIt) {
    HostRail beside_shm(true, true);
    const PeerAddress peer = beside_shm.insert_peer(other_.card);
    HostTransfer write(beside_shm, other_, peer, ours_);
    write.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(write.run(), Status::ok);
    other_.change(OtherProcess::close_rail);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(write.run(), Status::remote_disconnect);
    EXPECT_TRUE(write.fabric.taken.empty());
    EXPECT_FALSE(write.paths[0].failed()) << "later ones would take the other rail";
    EXPECT_TRUE(beside_shm.has_ended(peer));
    beside_shm.remove_peer(peer);
}

/// A process of that number, made now; -1: the kernel does not let us.
pid_t start_with_number(pid_t number) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
    arguments.set_tid_size = 1;
    const auto child = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof(arguments)));
    if (child == 0) {
        for (;;)
            pause();
    }
    return child;
}

TEST_F(HostRailTest, AProcessWhoseNumberIsAnothersHasEnded) {
    const pid_t number = other_.pid();
    other_.end(SIGKILL);
    const pid_t heir = start_with_number(number);
    if (heir < 0) GTEST_SKIP() << "no process can be given a number: " << std::strerror(errno);
    HostTransfer write = transfer();
    write.prepare(Work::Kind::write, {{0, 0, 1000}});
    EXPECT_EQ(write.run(), Status::remote_disconnect);
    EXPECT_TRUE(rail_.has_ended(peer_));
    kill(heir, SIGKILL);
    waitpid(heir, nullptr, 0);
}

TEST_F(HostRailTest, NobodyElseIsTakenForThePeer) {
    constexpr std::size_t boot_at = 1, pid_at = 17, card_at = 25, secret_at = 33;
    const auto changed = [&](std::size_t at, const std::string& bytes) {
        return std::string(other_.card).replace(at, bytes.size(), bytes);
    };
    const auto flipped = [&](std::size_t at) {  // one of 256 cards has any byte that is put there
        return changed(at, std::string(1, static_cast<char>(~other_.card[at])));
    };
    EXPECT_EQ(refusal(rail_, other_.card), "");
    const auto own = static_cast<std::uint32_t>(getpid());
    const std::string own_pid(reinterpret_cast<const char*>(&own), sizeof(own));
    EXPECT_NE(refusal(rail_, changed(pid_at, own_pid)).find("is another one here"), std::string::npos);
    EXPECT_NE(refusal(rail_, flipped(secret_at)).find("is another one here"), std::string::npos);
    EXPECT_NE(refusal(rail_, changed(card_at, std::string(8, '\0'))).find("is another one here"),
              std::string::npos);
    EXPECT_NE(refusal(rail_, flipped(boot_at)).find("on another host"), std::string::npos);
    EXPECT_NE(refusal(rail_, other_.card + "?").find("not understood"), std::string::npos);
    EXPECT_NE(refusal(rail_, "").find("not understood"), std::string::npos);
    other_.end(SIGKILL);
    EXPECT_NE(refusal(rail_, other_.card).find("has ended"), std::string::npos);
}

}  // namespace
}  // namespace railyard
