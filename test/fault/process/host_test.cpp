// fork() in a host that has the plugin loaded: what goes through the plugin's interface is refused in the
// child.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <fstream>
#include <iterator>

#include "child.h"
#include "pair.h"

namespace railyard::test {
namespace {

class HostFork : public testing::TestWithParam<Variant> {};

int use_in_child(Pair& pair, host::Request& request) {
    int wrong = 0;
    const auto refused = [&](const char* name, auto call) {
        try {
            call();
        } catch (const Error& error) {
            if (error.status() == Status::not_allowed) return;
            std::fprintf(stderr, "%s: %s\n", name, error.what());
        }
        std::fprintf(stderr, "%s was not refused in the child\n", name);
        ++wrong;
    };
    static unsigned char more[64];
    refused("register", [&] {
        pair.one.agent->register_memory({reinterpret_cast<std::uint64_t>(more), 64, 0});
    });
    refused("prepare", [&] {
        const host::Range from = pair.one.range(0, 8), to = pair.two.range(0, 8);
        pair.one.agent->prepare(host::Op::write, {&from, 1}, {&to, 1}, "two");
    });
    refused("notify", [&] { pair.one.agent->notify("two", "from the child"); });
    refused("notifications", [&] { pair.one.agent->notifications(); });
    if (request.post() != Status::not_allowed) ++wrong;
    return wrong;
}

TEST_P(HostFork, AChildIsRefusedMayDestroyAndEnds) {
    Pair pair(GetParam());
    host::Request request = pair.prepare(host::Op::write, pair.one.all(), pair.two.all(), "n");
    for (unsigned turn = 0; turn < 5; ++turn) {
        pair.one.fill(turn);
        pair.two.clear();
        Status status = request.post();
        Child child(Child::End::with_destructors, [&] {
            const int wrong = use_in_child(pair, request);
            pair.two.agent.reset();
            pair.one.agent.reset();
            return wrong;
        });
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (status == Status::in_progress && std::chrono::steady_clock::now() < deadline) {
            pair.two.look();
            status = request.poll();
        }
        EXPECT_EQ(status, Status::ok);
        EXPECT_TRUE(
            same_bytes(pair.one.text(0, pair.one.buffer.size()), pair.two.text(0, pair.two.buffer.size())));
        EXPECT_TRUE(pair.wait_for(pair.two, turn + 1));
        ASSERT_EQ(child.outcome([&] { pair.two.look(); }), "exit 0");
    }
}

/// As a forked worker that ends without an exec: whatever its host gives back, its log has nothing to say.
TEST_P(HostFork, AChildThatGivesAllBackSaysNothing) {
    Pair pair(GetParam());
    const std::string said = testing::TempDir() + "railyard-child-" + std::to_string(getpid());
    Child child(Child::End::with_destructors, [&] {
        const int file = open(said.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (file < 0 || dup2(file, STDERR_FILENO) < 0) return 1;
        pair.one.agent->forget_peer("two");
        const Status answer = status_of([&] { pair.one.agent->deregister_memory(pair.one.all()); });
        pair.two.agent.reset();
        pair.one.agent.reset();
        return answer == Status::not_allowed ? 0 : 2;
    });
    EXPECT_EQ(child.outcome(), "exit 0");
    std::ifstream file(said);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "");
    unlink(said.c_str());
}

INSTANTIATE_TEST_SUITE_P(Loopback, HostFork,
                         testing::Values(Variant{"tcp", true, 2}, Variant{"tcp", false, 1},
                                         Variant{"shm", true, 1}, Variant{"shm", false, 2}),
                         variant_name);

}  // namespace
}  // namespace railyard::test
