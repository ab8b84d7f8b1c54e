// Engines that meet at the same moment, know each other on one side only, share a name, and part in the
// middle of work.
#include <atomic>
#include <barrier>
#include <thread>

#include "engine_pair.h"
#include "sanitized.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int rounds = sanitized ? 20 : 60;
constexpr std::size_t size = 50'000;

/// An engine with memory to write from and to be written to.
struct Member {
    Member(std::string agent, const Fabric& fabric, std::uint32_t seed)
        : name(std::move(agent)),
          engine(make_engine(name, fabric)),
          source(*engine, size),
          target(*engine, size) {
        fill_pattern(source.bytes, seed);
        publish();
    }
    void publish() {
        info = engine->connection_info();
        memory = engine->memory_metadata(*target.region);
    }
    Transfer* prepare(Operation operation, const Member& peer,
                      std::optional<std::string_view> notification = std::nullopt, std::size_t at = 0,
                      std::size_t length = size) {
        const auto remote = engine->load_remote_memory(peer.name, peer.memory, peer.target.address(), size);
        const LocalDescriptor here = source.local(at, length);
        const RemoteDescriptor there{peer.target.address() + at, length, &remote};
        return engine->prepare(operation, {&here, 1}, {&there, 1}, peer.name, notification);
    }
    /// Loads the peer and writes to it, with a notification.
    Transfer* meet(const Member& peer, std::string_view message) {
        engine->load_connection_info(peer.name, peer.info);
        return prepare(Operation::write, peer, message);
    }
    std::string name;
    std::unique_ptr<Engine> engine;
    Buffer source, target;
    std::string info, memory;
};

class Meeting : public testing::TestWithParam<Fabric> {
  protected:
    ~Meeting() override { cluster().reset(); }

    static Member member(const std::string& name, std::uint32_t seed) { return {name, GetParam(), seed}; }
    /// Drives all of them until `over` says so; false past the limit.
    static bool until(std::initializer_list<Member*> members, const std::function<bool()>& over) {
        const auto end = Clock::now() + std::chrono::seconds(20);
        while (!over()) {
            if (Clock::now() > end) return false;
            for (Member* member : members)
                member->engine->progress();
        }
        return true;
    }
    static Status run(Transfer& transfer, Member& from, Member& to) {
        Status status = from.engine->post(transfer);
        until({&from, &to}, [&] {
            if (status == Status::in_progress) status = from.engine->poll(transfer);
            return status != Status::in_progress;
        });
        return status;
    }
    /// The next notification that arrives.
    static Notification heard(Member& by, Member& from) {
        std::vector<Notification> got;
        EXPECT_TRUE(until({&by, &from}, [&] {
            by.engine->take_notifications(got);
            return !got.empty();
        })) << "no notification";
        return got.empty() ? Notification{} : got.front();
    }
};

/// Each side loads the other and posts at once, while the other does the same.
TEST_P(Meeting, BothAtTheSameMoment) {
    Member alpha = member("alpha", 1), beta = member("beta", 2);
    std::barrier together(2);
    std::atomic<int> done{0};
    std::atomic<bool> failed{false};
    const auto side = [&](Member& self, Member& other) {
        for (int round = 0; round < rounds; ++round) {
            std::fill(self.target.bytes.begin(), self.target.bytes.end(), std::uint8_t{0});
            const std::string message = self.name + std::to_string(round);
            together.arrive_and_wait();
            Transfer* transfer = self.meet(other, message);
            Status status = self.engine->post(*transfer);
            std::vector<Notification> got;
            bool counted = false;
            const auto end = Clock::now() + std::chrono::seconds(20);
            // Until the other has all, too: it may need us.
            while (done.load() < 2 * (round + 1) && Clock::now() < end) {
                if (status == Status::in_progress) status = self.engine->poll(*transfer);
                self.engine->take_notifications(got);
                if (!counted && status != Status::in_progress && !got.empty()) {
                    counted = true;
                    ++done;
                }
                std::this_thread::yield();
            }
            EXPECT_EQ(status, Status::ok) << message;
            EXPECT_TRUE(self.target.bytes == other.source.bytes) << message;
            EXPECT_EQ(got.size(), 1u) << message;
            if (!got.empty()) {
                EXPECT_EQ(got[0].agent, other.name);
                EXPECT_EQ(got[0].message, other.name + std::to_string(round));
            }
            self.engine->release(transfer);
            if (HasFailure()) failed.store(true);
            together.arrive_and_wait();
            if (failed.load()) return;
            self.engine->disconnect(other.name);
        }
    };
    std::thread other([&] { side(beta, alpha); });
    side(alpha, beta);
    other.join();
}

/// What is known on one side alone goes, from there; the other side has to load first, and may forget again.
TEST_P(Meeting, OneSideKnowsTheOther) {
    Member alpha = member("alpha", 1), beta = member("beta", 2);
    Transfer* write = alpha.meet(beta, "written");
    EXPECT_EQ(run(*write, alpha, beta), Status::ok);
    EXPECT_TRUE(beta.target.bytes == alpha.source.bytes);
    EXPECT_EQ(heard(beta, alpha).message, "written");
    alpha.engine->send_notification("beta", "and a word");
    EXPECT_EQ(heard(beta, alpha).message, "and a word");
    EXPECT_TRUE(beta.engine->peers().empty());
    expect_error(Status::not_found, "load its metadata first",
                 [&] { beta.engine->send_notification("alpha", "answer"); });
    expect_error(Status::not_found, "alpha", [&] { beta.engine->connect("alpha"); });
    expect_error(Status::not_found, "alpha", [&] { beta.engine->disconnect("alpha"); });
    // From the moment that it loads, too.
    Transfer* back = beta.meet(alpha, "answer");
    EXPECT_EQ(run(*back, beta, alpha), Status::ok);
    EXPECT_TRUE(alpha.target.bytes == beta.source.bytes);
    EXPECT_EQ(heard(alpha, beta).message, "answer");
    beta.engine->release(back);
    // And when it has forgotten us, we make ourselves known anew.
    beta.engine->disconnect("alpha");
    for (int i = 0; i < 3; ++i) {
        std::fill(beta.target.bytes.begin(), beta.target.bytes.end(), std::uint8_t{0});
        EXPECT_EQ(run(*write, alpha, beta), Status::ok);
        EXPECT_TRUE(beta.target.bytes == alpha.source.bytes);
        EXPECT_EQ(heard(beta, alpha).message, "written");
    }
    alpha.engine->release(write);
}

/// Two engines of one name, as on two hosts: who knows one of them does not meet the other.
TEST_P(Meeting, TwoOfOneName) {
    Member first = member("twin", 1), second = member("twin", 2);
    Member alpha = member("alpha", 3), beta = member("beta", 4);
    Transfer *to_first = alpha.meet(first, "to the first"), *to_second = beta.meet(second, "to the second");
    EXPECT_EQ(run(*to_first, alpha, first), Status::ok);
    EXPECT_EQ(run(*to_second, beta, second), Status::ok);
    EXPECT_TRUE(first.target.bytes == alpha.source.bytes);
    EXPECT_TRUE(second.target.bytes == beta.source.bytes);
    EXPECT_EQ(heard(first, alpha).message, "to the first");
    EXPECT_EQ(heard(second, beta).message, "to the second");
    // The other way round, to the same peer: it is told apart by instance, and both are called by their name.
    Transfer *of_first = first.meet(alpha, "of the first"), *of_second = second.meet(alpha, "of the second");
    EXPECT_EQ(run(*of_first, first, alpha), Status::ok);
    EXPECT_TRUE(alpha.target.bytes == first.source.bytes);
    EXPECT_EQ(heard(alpha, first).message, "of the first");
    EXPECT_EQ(run(*of_second, second, alpha), Status::ok);
    EXPECT_TRUE(alpha.target.bytes == second.source.bytes);
    EXPECT_EQ(heard(alpha, second).message, "of the second");
    EXPECT_EQ(run(*of_first, first, alpha), Status::ok);
    expect_error(Status::mismatch, "rename one",
                 [&] { first.engine->load_connection_info("twin", second.info); });
    first.engine->release(of_first);
    second.engine->release(of_second);
    alpha.engine->release(to_first);
    beta.engine->release(to_second);
}

/// A new instance under a name takes the old one's place, although that is alive and well.
TEST_P(Meeting, TheInstanceLoadedLastIsTheOneMeant) {
    Member first = member("twin", 1), second = member("twin", 2), alpha = member("alpha", 3);
    std::vector<Transfer*> made;
    for (int turn = 0; turn < 6; ++turn) {
        Member& now = turn % 2 ? second : first;
        Member& before = turn % 2 ? first : second;
        std::fill(now.target.bytes.begin(), now.target.bytes.end(), std::uint8_t{0});
        made.push_back(alpha.meet(now, "now"));
        EXPECT_EQ(run(*made.back(), alpha, now), Status::ok);
        EXPECT_TRUE(now.target.bytes == alpha.source.bytes);
        EXPECT_EQ(heard(now, alpha).message, "now");
        ASSERT_EQ(alpha.engine->peers().size(), 1u);
        if (turn == 0) continue;
        EXPECT_EQ(alpha.engine->post(*made[made.size() - 2]), Status::remote_disconnect);
        expect_error(Status::remote_disconnect, "another instance",
                     [&] { alpha.prepare(Operation::read, before); });
    }
    for (Transfer* transfer : made)
        alpha.engine->release(transfer);
}

/// Handles of two threads, posted over and over, while a third one disconnects, and connects again.
TEST_P(Meeting, PartingInTheMiddleOfWorkEndsEveryHandle) {
    Member alpha = member("alpha", 1), beta = member("beta", 2);
    std::atomic<bool> over{false};
    std::thread drive([&] {
        while (!over.load() && !GetParam().progress_thread) {
            beta.engine->progress();
            std::this_thread::yield();
        }
    });
    for (int round = 0; round < rounds / 2 && !HasFailure(); ++round) {
        alpha.engine->load_connection_info("beta", beta.info);
        std::atomic<int> posts{0};
        std::atomic<bool> parted{false};
        const auto work = [&](Transfer* transfer) {
            const auto end = Clock::now() + std::chrono::seconds(20);
            Status status = Status::ok;
            while (status == Status::ok && Clock::now() < end) {
                const bool last = parted.load();
                status = alpha.engine->post(*transfer);
                ++posts;
                while (status == Status::in_progress && Clock::now() < end) {
                    std::this_thread::yield();
                    status = alpha.engine->poll(*transfer);
                }
                if (last && status == Status::ok) {
                    ADD_FAILURE() << "posted after the end of disconnect";
                    return;
                }
            }
            EXPECT_EQ(status, Status::remote_disconnect);
        };
        // Each to bytes of its own: two operations that put data to one place have no order.
        Transfer* transfers[2] = {alpha.prepare(Operation::write, beta, std::nullopt, 0, size / 2),
                                  alpha.prepare(Operation::write, beta, std::nullopt, size / 2, size / 2)};
        std::thread workers[2] = {std::thread(work, transfers[0]), std::thread(work, transfers[1])};
        while (posts.load() < 4 + round % 8)
            std::this_thread::yield();
        alpha.engine->disconnect("beta");
        parted.store(true);
        for (std::thread& worker : workers)
            worker.join();
        // Both are over, and nothing more is written.
        std::fill(beta.target.bytes.begin(), beta.target.bytes.end(), std::uint8_t{0x5a});
        const auto end = Clock::now() + milliseconds(2);
        while (Clock::now() < end)
            alpha.engine->progress();
        EXPECT_EQ(std::count(beta.target.bytes.begin(), beta.target.bytes.end(), 0x5a),
                  static_cast<std::ptrdiff_t>(size))
            << "written after the end";
        for (Transfer* transfer : transfers)
            alpha.engine->release(transfer);
    }
    over.store(true);
    drive.join();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Meeting,
                         testing::Values(Fabric{"tcp", 2, false}, Fabric{"tcp", 1, true},
                                         Fabric{"tcp-msg", 2, true}, Fabric{"efa-direct", 2, false},
                                         Fabric{"efa-direct", 1, true}, Fabric{"efa", 2, false}),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
