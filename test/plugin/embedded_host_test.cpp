// The plugin in the embedded host: data, notifications, handles, each over tcp and shm, with and without a
// progress thread, on one rail and several.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "host/peer_blob.h"
#include "pair.h"

namespace railyard::test {
namespace {

using host::Op;
using host::Range;

class EmbeddedHost : public testing::TestWithParam<Variant> {};

TEST_P(EmbeddedHost, WritesAndReadsBackEverySizeAtOddPlaces) {
    Pair pair(GetParam());
    for (const std::size_t length : {1u, 8u, 4096u, 65537u, 1048576u, 3000001u}) {
        SCOPED_TRACE(length);
        pair.one.fill(static_cast<unsigned>(length));
        pair.two.clear();
        ASSERT_EQ(pair.run(Op::write, pair.one.range(3, length), pair.two.range(7, length)), Status::ok);
        EXPECT_TRUE(same_bytes(pair.one.text(3, length), pair.two.text(7, length)));
        EXPECT_EQ(pair.two.buffer[6], 0);
        EXPECT_EQ(pair.two.buffer[7 + length], 0);
        pair.one.clear();
        ASSERT_EQ(pair.run(Op::read, pair.one.range(5, length), pair.two.range(7, length)), Status::ok);
        EXPECT_TRUE(same_bytes(pair.one.text(5, length), pair.two.text(7, length)));
    }
}

TEST_P(EmbeddedHost, NotificationComesOnceAndAfterTheData) {
    Pair pair(GetParam());
    for (unsigned turn = 0; turn < 20; ++turn) {
        pair.one.fill(turn);
        host::Request request =
            pair.prepare(Op::write, pair.one.range(0, 200000), pair.two.range(0, 200000), "turn");
        Status status = request.post();
        ASSERT_TRUE(status == Status::in_progress || status == Status::ok);
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (pair.two.arrived.empty() && std::chrono::steady_clock::now() < deadline) {
            request.poll();
            pair.two.look();
        }
        ASSERT_TRUE(same_bytes(pair.one.text(0, 200000), pair.two.text(0, 200000)))
            << "notified before the data was there";
        while (request.poll() == Status::in_progress && std::chrono::steady_clock::now() < deadline)
            pair.two.look();
        EXPECT_EQ(request.poll(), Status::ok);
        pair.two.look();
        ASSERT_EQ(pair.two.arrived.size(), 1u);
        EXPECT_EQ(pair.two.arrived.front(), (std::pair<std::string, std::string>("one", "turn")));
        pair.two.arrived.clear();
    }
}

TEST_P(EmbeddedHost, NotificationsOfAnySizeArriveWholeBothWays) {
    Pair pair(GetParam());
    std::vector<std::string> messages;
    for (const std::size_t size : {0u, 1u, 100u, 5000u, 1048576u}) {
        std::string message(size, '\0');
        for (std::size_t i = 0; i < size; ++i)
            message[i] = static_cast<char>(i * 31 + size);
        messages.push_back(std::move(message));
    }
    for (const std::string& message : messages) {
        pair.one.agent->notify("two", message);
        pair.two.agent->notify("one", message);
    }
    ASSERT_TRUE(pair.wait_for(pair.two, messages.size()));
    ASSERT_TRUE(pair.wait_for(pair.one, messages.size()));
    for (Side* side : {&pair.one, &pair.two}) {
        const std::string sender = side == &pair.one ? "two" : "one";
        std::vector<std::string> bodies;
        for (auto& [from, body] : side->arrived) {
            EXPECT_EQ(from, sender);
            bodies.push_back(body);
        }
        EXPECT_TRUE(std::is_permutation(bodies.begin(), bodies.end(), messages.begin(), messages.end()));
    }
}

TEST_P(EmbeddedHost, LargestNotificationPassesAndALargerIsRefused) {
    Pair pair(GetParam());
    const std::string largest(std::size_t{16} << 20, 'x');
    pair.one.agent->notify("two", largest);
    ASSERT_TRUE(pair.wait_for(pair.two, 1));
    EXPECT_TRUE(pair.two.arrived.front().second == largest);
    EXPECT_EQ(status_of([&] { pair.one.agent->notify("two", largest + "x"); }), Status::invalid_param);
}

TEST_P(EmbeddedHost, TransfersToOneself) {
    Side side("lonely", GetParam(), 1 << 20);
    side.fill(1);
    const Range from = side.range(0, 300000);
    const Range to = side.range(500000, 300000);
    host::Request write = side.agent->prepare(Op::write, {&from, 1}, {&to, 1}, "lonely", "done");
    ASSERT_EQ(write.run(patience), Status::ok);
    EXPECT_TRUE(same_bytes(side.text(0, 300000), side.text(500000, 300000)));
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (side.arrived.empty() && std::chrono::steady_clock::now() < deadline)
        side.look();
    ASSERT_EQ(side.arrived.size(), 1u);
    EXPECT_EQ(side.arrived.front(), (std::pair<std::string, std::string>("lonely", "done")));
    side.agent->notify("lonely", "note");
    while (side.arrived.size() < 2 && std::chrono::steady_clock::now() < deadline)
        side.look();
    ASSERT_EQ(side.arrived.size(), 2u);
    EXPECT_EQ(side.arrived.back().second, "note");
}

TEST_P(EmbeddedHost, AHandleIsPostedManyTimes) {
    Pair pair(GetParam());
    host::Request request =
        pair.prepare(Op::write, pair.one.range(0, 100000), pair.two.range(1, 100000), "again");
    EXPECT_EQ(request.poll(), Status::not_posted);
    for (unsigned turn = 0; turn < 50; ++turn) {
        pair.one.fill(turn);
        ASSERT_EQ(pair.finish(request), Status::ok);
        ASSERT_TRUE(same_bytes(pair.one.text(0, 100000), pair.two.text(1, 100000))) << turn;
        ASSERT_EQ(request.poll(), Status::ok) << "the outcome stays";
    }
    EXPECT_TRUE(pair.wait_for(pair.two, 50));
}

TEST_P(EmbeddedHost, ManyDescriptorsInOneTransfer) {
    Pair pair(GetParam());
    constexpr std::size_t count = 5000, length = 777;
    std::vector<Range> local, remote;
    for (std::size_t i = 0; i < count; ++i) {
        local.push_back(pair.one.range(i * length, length));
        remote.push_back(pair.two.range((count - 1 - i) * length, length));
    }
    pair.one.fill(9);
    host::Request request = pair.one.agent->prepare(Op::write, local, remote, "two");
    ASSERT_EQ(pair.finish(request), Status::ok);
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(
            same_bytes(pair.one.text(i * length, length), pair.two.text((count - 1 - i) * length, length)))
            << i;
}

TEST_P(EmbeddedHost, AwkwardRegions) {
    Pair pair(GetParam());
    // Overlapping, adjacent, empty, the same twice.
    for (const Range& range : {pair.one.range(100, 1000), pair.one.range(1100, 1000),
                               pair.one.range(50, 4000), pair.one.range(10, 0), pair.one.range(100, 1000)})
        pair.one.agent->register_memory(range);
    pair.one.agent->deregister_memory(pair.one.range(100, 1000));
    pair.one.fill(4);
    EXPECT_EQ(pair.run(Op::write, pair.one.range(100, 3000), pair.two.range(0, 3000)), Status::ok);
    EXPECT_TRUE(same_bytes(pair.one.text(100, 3000), pair.two.text(0, 3000)));

    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const memory = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const Range read_only{reinterpret_cast<std::uint64_t>(memory), page, 0};
    pair.one.agent->register_memory(read_only);
    EXPECT_EQ(pair.run(Op::write, read_only, pair.two.range(0, page)), Status::ok);
    EXPECT_TRUE(same_bytes(pair.two.text(0, page), std::string(page, '\0')));
    pair.one.agent->deregister_memory(read_only);
    munmap(memory, page);
}

TEST_P(EmbeddedHost, RefusesWhatLiesOutsideItsRegion) {
    Pair pair(GetParam());
    const std::size_t size = pair.one.buffer.size();
    const Range inside = pair.one.range(0, 64), there = pair.two.range(0, 64);
    Range wrapping = pair.one.range(10, ~std::uint64_t{0} - 10);
    for (const auto& sides :
         std::vector<std::pair<Range, Range>>{{pair.one.range(size - 1, 2), pair.two.range(0, 2)},
                                              {inside, pair.two.range(size - 63, 64)},
                                              {{4096, 64, 0}, there},
                                              {inside, {4096, 64, 0}},
                                              {wrapping, {there.address + 10, wrapping.length, 0}}})
        EXPECT_EQ(status_of([&] { pair.prepare(Op::write, sides.first, sides.second); }), Status::not_found);
    EXPECT_EQ(status_of([&] { pair.prepare(Op::write, inside, pair.two.range(0, 65)); }),
              Status::invalid_param);
    EXPECT_EQ(pair.run(Op::write, inside, there), Status::ok);
}

TEST_P(EmbeddedHost, RefusesUnknownAgents) {
    Pair pair(GetParam());
    const Range here = pair.one.range(0, 8), there = pair.two.range(0, 8);
    EXPECT_EQ(status_of([&] {
                  pair.one.agent->prepare(Op::write, {&here, 1}, {&there, 1}, "nobody");
              }),
              Status::not_found);
    EXPECT_EQ(status_of([&] { pair.one.agent->notify("nobody", "hello"); }), Status::not_found);
    EXPECT_EQ(status_of([&] { pair.one.agent->connect("nobody"); }), Status::not_found);
    EXPECT_EQ(status_of([&] { pair.one.agent->forget_peer("nobody"); }), Status::not_found);
    pair.one.agent->forget_peer("two");
    EXPECT_EQ(status_of([&] { pair.prepare(Op::write, here, there); }), Status::not_found);
    pair.one.agent->load_peer(pair.two.agent->metadata());
    pair.one.agent->connect("two");
    EXPECT_EQ(pair.run(Op::write, here, there), Status::ok);
}

TEST_P(EmbeddedHost, RefusesDamagedMetadataAndTakesTheTrueOneThen) {
    Pair pair(GetParam(), 1 << 16);
    pair.one.agent->forget_peer("two");
    const std::string good = pair.two.agent->metadata();
    for (std::size_t i = 0; i < good.size(); i += 1 + good.size() / 200) {
        std::string damaged = good;
        damaged[i] = static_cast<char>(damaged[i] ^ 4);
        EXPECT_EQ(status_of([&] { pair.one.agent->load_peer(damaged); }), Status::mismatch) << i;
        EXPECT_EQ(status_of([&] { pair.one.agent->load_peer(good.substr(0, i)); }), Status::mismatch) << i;
    }
    // The same again below the host's own checksum, where the plugin has to see it.
    const host::PeerDescription description = host::decode(good);
    const auto expect_refused = [&](auto&& part_of, std::size_t stride) {
        host::PeerDescription copy = description;
        std::string& part = part_of(copy);
        const std::string whole = part;
        for (std::size_t i = 0; i < whole.size(); i += stride) {
            part = whole;
            part[i] = static_cast<char>(part[i] ^ 4);
            EXPECT_EQ(status_of([&] { pair.one.agent->load_peer(host::encode(copy)); }), Status::mismatch)
                << i;
            part = whole.substr(0, i);
            EXPECT_EQ(status_of([&] { pair.one.agent->load_peer(host::encode(copy)); }), Status::mismatch)
                << i;
        }
    };
    const auto connection = [](host::PeerDescription& peer) -> std::string& { return peer.connection_info; };
    const auto region = [](host::PeerDescription& peer) -> std::string& {
        return peer.regions.front().metadata;
    };
    expect_refused(connection, 1 + description.connection_info.size() / 100);
    expect_refused(region, 1 + description.regions.front().metadata.size() / 100);
    EXPECT_EQ(pair.one.agent->load_peer(good), "two");
    pair.one.fill(2);
    EXPECT_EQ(pair.run(Op::write, pair.one.range(0, 999), pair.two.range(0, 999)), Status::ok);
    EXPECT_TRUE(same_bytes(pair.one.text(0, 999), pair.two.text(0, 999)));
}

TEST_P(EmbeddedHost, SeveralEnginesInOneProcessDoNotMix) {
    Pair first(GetParam(), 1 << 18, " of the first"), second(GetParam(), 1 << 18, " of the second");
    first.one.fill(1);
    second.one.fill(2);
    for (Pair* pair : {&first, &second}) {
        const std::string name = pair->two.agent->name();
        ASSERT_EQ(pair->run(Op::write, pair->one.range(0, 100000), pair->two.range(0, 100000), name),
                  Status::ok);
    }
    for (Pair* pair : {&first, &second}) {
        EXPECT_TRUE(same_bytes(pair->one.text(0, 100000), pair->two.text(0, 100000)));
        ASSERT_TRUE(pair->wait_for(pair->two, 1));
        EXPECT_EQ(pair->two.arrived.front(),
                  (std::pair<std::string, std::string>(pair->one.agent->name(), pair->two.agent->name())));
    }
    first.one.agent.reset();
    EXPECT_EQ(second.run(Op::read, second.one.range(0, 5), second.two.range(0, 5)), Status::ok);
}

INSTANTIATE_TEST_SUITE_P(Loopback, EmbeddedHost,
                         testing::Values(Variant{"tcp", true, 1}, Variant{"tcp", false, 1},
                                         Variant{"tcp", true, 4}, Variant{"shm", true, 1},
                                         Variant{"shm", false, 1}, Variant{"shm", true, 4}),
                         variant_name);

}  // namespace
}  // namespace railyard::test
