// Engines over shm whose processes have the same number, in PID namespaces of their own, as in containers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <span>

#include "common/status.h"
#include "one_engine.h"
#include "patience.h"
#include "shared_memory.h"

namespace railyard::test {
namespace namespaces {

constexpr int not_permitted = 77;
constexpr std::size_t size = std::size_t{1} << 20;

/// The first process of a PID namespace, which is a child of a process of its own here.
class Container {
  public:
    enum class Shm { shared, own };
    Container(Shm shm, const std::function<int()>& body) : outer_(fork()) {
        if (outer_ == 0) _exit(contain(shm, body));
    }
    ~Container() {
        if (outer_ > 0) static_cast<void>(exit_status());
    }
    Container(const Container&) = delete;
    Container& operator=(const Container&) = delete;

    /// 128 and more for a signal. Waits.
    int exit_status() {
        const int status = status_of(outer_);
        outer_ = 0;
        return status;
    }

  private:
    static int status_of(pid_t child) {
        int status = 0;
        if (waitpid(child, &status, 0) != child) return 1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    static int contain(Shm shm, const std::function<int()>& body) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return not_permitted;
        if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return not_permitted;
        if (shm == Shm::own && mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1g") != 0) return not_permitted;
        const pid_t first = fork();
        if (first != 0) return status_of(first);
        alarm(60);
        if (mount("proc", "/proc", "proc", 0, nullptr) != 0) _exit(not_permitted);
        int status = 1;
        try {
            status = body();
        } catch (const std::exception& error) {
            std::cerr << error.what() << std::endl;
        }
        _exit(status);
    }

    pid_t outer_;
};

/// Between two of them.
class Line {
  public:
    Line() {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
        const timeval limit{20, 0};
        for (const int end : ends_)
            EXPECT_EQ(setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    }
    ~Line() {
        close(ends_[0]);
        close(ends_[1]);
    }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    void say(int end, const std::string& text) const {
        if (send(ends_[end], text.data(), text.size(), 0) < 0) std::cerr << "nobody listens\n";
    }
    [[nodiscard]] std::string hear(int end) const {
        std::string text(65536, '\0');
        const ssize_t got = recv(ends_[end], text.data(), text.size(), 0);
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return text;
    }
    [[nodiscard]] bool has_news(int end) const {
        char byte;
        return recv(ends_[end], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
    }

  private:
    int ends_[2] = {-1, -1};
};

std::unique_ptr<Engine> open_engine(const char* name) {
    return make_engine(name, {"shm", 1, false, false}, {{"connect_timeout_ms", "1500"}});
}

bool holds(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
    std::vector<std::uint8_t> pattern(bytes.size());
    fill_pattern(pattern, seed);
    return std::equal(bytes.begin(), bytes.end(), pattern.begin());
}

/// Waits to be told that it is over. 0 when the bytes and their notification have come, 3 when neither has.
int receive(const Line& line) {
    const auto engine = open_engine("beta");
    Buffer target(*engine, size, 'z');
    line.say(1, engine->connection_info());
    line.say(1, engine->memory_metadata(*target.region));
    line.say(1, std::to_string(target.address()));
    engine->load_connection_info("alpha", line.hear(1));
    std::vector<Notification> got;
    for (Patience loop; !line.has_news(1); loop.turn())
        engine->take_notifications(got);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    for (Patience loop; got.empty() && std::chrono::steady_clock::now() < limit; loop.turn())
        engine->take_notifications(got);
    const bool came = holds(std::span(target.bytes).first(size / 2), 1);
    if (came && got.size() == 1) return 0;
    std::cerr << (came ? "all came, " : "") << got.size() << " notifications\n";
    return !came && got.empty() ? 3 : 1;
}

Status carry(Engine& engine, Operation operation, const LocalDescriptor& from, const RemoteDescriptor& to) {
    const std::optional<std::string_view> notification =
        operation == Operation::write ? std::optional<std::string_view>("done") : std::nullopt;
    Transfer* const transfer = engine.prepare(operation, {&from, 1}, {&to, 1}, "beta", notification);
    Status status = engine.post(*transfer);
    for (Patience loop; status == Status::in_progress; loop.turn())
        status = engine.poll(*transfer);
    engine.release(transfer);
    return status;
}

/// Another engine of this process, with which libfabric has the kernel copy.
struct Neighbour {
    explicit Neighbour(Engine& of) : engine(open_engine("gamma")) {
        of.load_connection_info("gamma", engine->connection_info());
        of.connect("gamma");
    }
    std::unique_ptr<Engine> engine;
};

/// 0 when all went well, 3 when nothing went, with no success said, 4 when memory of our own has changed.
int send_and_read(const Line& line, bool knows_one_here) {
    const auto engine = open_engine("alpha");
    const auto neighbour = knows_one_here ? std::make_unique<Neighbour>(*engine) : nullptr;
    const Buffer bystander(*engine, size, 'o');  // where the other's target may lie in its process
    Buffer source(*engine, size), back(*engine, size, 'b');
    fill_pattern(std::span(source.bytes).first(size / 2), 1);
    const std::string info = line.hear(0), memory = line.hear(0);
    const std::uint64_t address = std::stoull(line.hear(0));
    line.say(0, engine->connection_info());
    int status = 3;
    try {
        engine->load_connection_info("beta", info);
        const auto remote = engine->load_remote_memory("beta", memory, address, size);
        const auto write =
            carry(*engine, Operation::write, source.local(0, size / 2), {address, size / 2, &remote});
        const auto read =
            carry(*engine, Operation::read, back.local(0, size / 2), {address, size / 2, &remote});
        const auto small =
            carry(*engine, Operation::read, back.local(size / 2, 64), {address + 512, 64, &remote});
        const bool right = holds(std::span(back.bytes).first(size / 2), 1) &&
                           std::equal(back.bytes.begin() + size / 2, back.bytes.begin() + size / 2 + 64,
                                      source.bytes.begin() + 512);
        if (write == Status::ok || read == Status::ok || small == Status::ok)
            status = right && write == Status::ok && read == Status::ok && small == Status::ok ? 0 : 1;
        std::cerr << "write " << to_string(write) << ", read " << to_string(read) << ", small "
                  << to_string(small) << (right ? "" : ", other bytes") << std::endl;
    } catch (const Error& error) {
        std::cerr << error.what() << std::endl;
    }
    line.say(0, "over");
    const auto unchanged = [](std::uint8_t byte) { return byte == 'o'; };
    return std::all_of(bystander.bytes.begin(), bystander.bytes.end(), unchanged) ? status : 4;
}

void run_pair(Container::Shm shm, bool knows_one_here, int expected) {
    const Line line;
    Container sender(shm, [&] { return send_and_read(line, knows_one_here); });
    Container receiver(shm, [&] { return receive(line); });
    const int sent = sender.exit_status(), received = receiver.exit_status();
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(received, expected);
}

class PidNamespaces : public testing::Test {
  protected:
    void SetUp() override {
        Container probe(Container::Shm::own, [] { return 0; });
        if (probe.exit_status() == not_permitted) GTEST_SKIP() << "no PID namespaces here";
    }
};

TEST_F(PidNamespaces, ProcessesOfOneNumberReachEachOther) {
    run_pair(Container::Shm::shared, false, 0);
}

TEST_F(PidNamespaces, TheyDoBesideOthersThatAreWrittenToDirectly) {
    run_pair(Container::Shm::shared, true, 0);
}

TEST_F(PidNamespaces, WithADevShmOfItsOwnNobodyIsReachedAndNothingChanged) {
    run_pair(Container::Shm::own, false, 3);
}

/// Number 1 again, as after the restart of a container whose first process was killed.
TEST_F(PidNamespaces, WhatAKilledProcessLeftIsInNobodysWayAndTakenAway) {
    const std::size_t before = shared_memory_of(1);
    Container first(Container::Shm::shared, [] {
        const auto killed = open_engine("alpha");
        _exit(0);
        return 1;
    });
    const int status = first.exit_status();
    ASSERT_EQ(status, 0);
    Container second(Container::Shm::shared, [=] {
        const auto engine = open_engine("alpha");
        return shared_memory_of(1) <= before + 1 ? 0 : 1;
    });
    EXPECT_EQ(second.exit_status(), 0) << "is refused, or has not taken away what was left behind";
    remove_shared_memory_of(1);
}

TEST_F(PidNamespaces, ALiveContainersEndpointStays) {
    const Line line;
    Container first(Container::Shm::shared, [&] {
        const auto engine = open_engine("alpha");
        line.say(1, "open");
        static_cast<void>(line.hear(1));
        return shared_memory_of(1) >= 1 ? 0 : 1;
    });
    static_cast<void>(line.hear(0));
    Container second(Container::Shm::shared, [] {
        const auto engine = open_engine("alpha");
        return shared_memory_of(1) >= 2 ? 0 : 1;
    });
    const int status = second.exit_status();
    line.say(0, "over");
    const int of_first = first.exit_status();
    EXPECT_EQ(status, 0) << "is refused, or has taken away another's";
    EXPECT_EQ(of_first, 0);
}

}  // namespace namespaces
}  // namespace railyard::test
