// Parts of the embedded host that need no plugin: the interface's binary order, ranges, peer blobs, channels.
#include <backend/backend_engine.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "host/metadata_exchange.h"
#include "host/peer_blob.h"
#include "host/sections.h"
#include "nixl_abi/abi_asserts.h"
#include "pair.h"

namespace {

constexpr const char* of_both = "two-addresses.test";
std::uint16_t connected_from_itself = 0;  ///< network byte order

}  // namespace

/// Of connections to that port the kernel has chosen it as ours, too, as it may; all others are libc's.
extern "C" int connect(int socket, const sockaddr* address, socklen_t size) {
    static const auto libc = reinterpret_cast<decltype(&connect)>(dlsym(RTLD_NEXT, "connect"));
    const auto* const place = reinterpret_cast<const sockaddr_in*>(address);
    if (connected_from_itself != 0 && place->sin_family == AF_INET &&
        place->sin_port == connected_from_itself)
        static_cast<void>(bind(socket, address, size));
    return libc(socket, address, size);
}

/// A name that has two addresses of this machine, as a name server may give them; all others are libc's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** list) {
    static const auto libc = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
    if (name == nullptr || std::strcmp(name, of_both) != 0) return libc(name, service, hints, list);
    const int code = libc("127.0.0.2", service, hints, list);
    return code != 0 ? code : libc("127.0.0.3", service, hints, &(*list)->ai_next);
}

namespace railyard::test {
namespace {

using namespace std::chrono_literals;
using host::Channel;
using host::Listener;

/// The place of a virtual function in its table: the Itanium ABI keeps 1 + 8 * place in the first word of the
/// pointer.
template <class Member>
std::size_t slot(Member member) {
    std::uintptr_t words[2] = {};
    static_assert(sizeof member == sizeof words);
    std::memcpy(words, &member, sizeof words);
    return (words[0] - 1) / sizeof(void*);
}

TEST(Interface, VirtualFunctionsKeepTheirPlaces) {
    using E = nixlBackendEngine;
    using RemoteList = nixl_remote_meta_dlist_t;
    EXPECT_EQ(slot(&E::supportsRemote), 2u);
    EXPECT_EQ(slot(&E::supportsLocal), 3u);
    EXPECT_EQ(slot(&E::supportsNotif), 4u);
    EXPECT_EQ(slot(&E::getSupportedMems), 5u);
    EXPECT_EQ(slot(&E::registerMem), 6u);
    EXPECT_EQ(slot(&E::deregisterMem), 7u);
    EXPECT_EQ(slot(&E::connect), 8u);
    EXPECT_EQ(slot(&E::disconnect), 9u);
    EXPECT_EQ(slot(&E::unloadMD), 10u);
    EXPECT_EQ(slot(&E::prepXfer), 11u);
    EXPECT_EQ(slot(&E::postXfer), 12u);
    EXPECT_EQ(slot(&E::checkXfer), 13u);
    EXPECT_EQ(slot(&E::releaseReqH), 14u);
    using View = nixl_status_t (E::*)(const RemoteList&, void*&, const nixl_opt_b_args_t*) const;
    using LocalView = nixl_status_t (E::*)(const nixl_meta_dlist_t&, void*&, const nixl_opt_b_args_t*) const;
    EXPECT_EQ(slot<View>(&E::prepMemView), 15u);
    EXPECT_EQ(slot<LocalView>(&E::prepMemView), 16u);
    EXPECT_EQ(slot(&E::releaseMemView), 17u);
    EXPECT_EQ(slot(&E::getPublicData), 18u);
    EXPECT_EQ(slot(&E::getConnInfo), 19u);
    EXPECT_EQ(slot(&E::loadRemoteConnInfo), 20u);
    EXPECT_EQ(slot(&E::loadRemoteMD), 21u);
    EXPECT_EQ(slot(&E::loadLocalMD), 22u);
    EXPECT_EQ(slot(&E::getNotifs), 23u);
    EXPECT_EQ(slot(&E::genNotif), 24u);
    EXPECT_EQ(slot(&E::queryMem), 25u);
    EXPECT_EQ(slot(&E::estimateXferCost), 26u);
    EXPECT_EQ(slot(&nixl_meta_dlist_t::resize), 2u);
    EXPECT_EQ(slot(&nixl_meta_dlist_t::addDesc), 3u);
    EXPECT_EQ(slot(&nixl_meta_dlist_t::getIndex), 4u);
}

TEST(Ranges, ContainmentDoesNotWrap) {
    const host::Range region{1000, 100, 0};
    EXPECT_TRUE(host::contains(region, {1000, 100, 0}));
    EXPECT_TRUE(host::contains(region, {1099, 1, 0}));
    EXPECT_TRUE(host::contains(region, {1100, 0, 0}));
    EXPECT_FALSE(host::contains(region, {1099, 2, 0}));
    EXPECT_FALSE(host::contains(region, {999, 2, 0}));
    EXPECT_FALSE(host::contains(region, {1010, ~std::uint64_t{0} - 5, 0}));
    EXPECT_FALSE(host::contains(region, {~std::uint64_t{0}, 2, 0}));
    EXPECT_FALSE(host::contains(region, {1000, 100, 1})) << "another device";
    EXPECT_TRUE(host::contains({0, ~std::uint64_t{0}, 0}, {5, 10, 0}));
}

TEST(PeerBlob, KeepsEverything) {
    const host::PeerDescription original{
        .agent = "name",
        .plugin = "PLUGIN",
        .connection_info = std::string("a\0b", 3),
        .regions = {{1, 2, 0, "first"}, {~std::uint64_t{0}, 4, 7, std::string(100000, 'x')}}};
    const host::PeerDescription copy = host::decode(host::encode(original));
    EXPECT_EQ(copy.agent, original.agent);
    EXPECT_EQ(copy.plugin, original.plugin);
    EXPECT_EQ(copy.connection_info, original.connection_info);
    ASSERT_EQ(copy.regions.size(), 2u);
    EXPECT_EQ(copy.regions[1].address, original.regions[1].address);
    EXPECT_EQ(copy.regions[1].length, 4u);
    EXPECT_EQ(copy.regions[1].device, 7u);
    EXPECT_EQ(copy.regions[1].metadata, original.regions[1].metadata);
}

TEST(PeerBlob, RefusesEveryTruncationAndEveryFlippedBit) {
    const std::string good =
        host::encode({.agent = "n", .plugin = "P", .connection_info = "c", .regions = {{1, 2, 0, "m"}}});
    for (std::size_t i = 0; i < good.size(); ++i) {
        EXPECT_EQ(status_of([&] { (void)host::decode(good.substr(0, i)); }), Status::mismatch);
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = good;
            damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
            EXPECT_EQ(status_of([&] { (void)host::decode(damaged); }), Status::mismatch) << i << " " << bit;
        }
    }
    EXPECT_EQ(status_of([&] { (void)host::decode(good + "x"); }), Status::mismatch);
}

std::pair<Channel, Channel> channels() {
    Listener listener("127.0.0.1", 0);
    EXPECT_NE(listener.port(), 0);
    Channel one = Channel::connect("127.0.0.1", listener.port(), patience);
    return {std::move(one), listener.accept(patience)};
}

TEST(Channels, CarryMessagesBothWays) {
    auto [one, two] = channels();
    const std::string large(std::size_t{8} << 20, 'l');
    std::thread sender([&channel = one, &large] {
        channel.send("");
        channel.send(std::string_view("a\0b", 3));
        channel.send(large, patience);
    });
    EXPECT_EQ(two.receive(patience), "");
    EXPECT_EQ(two.receive(patience), std::string("a\0b", 3));
    EXPECT_TRUE(two.receive(patience) == large);
    sender.join();
    two.send("back");
    EXPECT_EQ(one.receive(patience), "back");
}

TEST(Channels, EveryWaitEnds) {
    auto [one, two] = channels();
    EXPECT_EQ(status_of([&channel = two] { (void)channel.receive(20ms); }), Status::canceled);
    const std::string huge(std::size_t{64} << 20, 'h');
    EXPECT_EQ(status_of([&channel = one, &huge] { channel.send(huge, 20ms); }), Status::canceled);
    Listener listener("127.0.0.1", 0);
    EXPECT_EQ(status_of([&] { (void)listener.accept(20ms); }), Status::canceled);
    const std::uint16_t port = Listener("127.0.0.1", 0).port();  // closed again: nobody listens there
    EXPECT_EQ(status_of([&] { (void)Channel::connect("127.0.0.1", port, 50ms); }), Status::canceled);
    EXPECT_EQ(status_of([] { (void)Channel::connect("not a host name", 1, 50ms); }), Status::not_found);
}

TEST(Channels, RefuseWhatIsTooLongOrForeign) {
    auto [one, two] = channels();
    one.send(std::string(100, 'x'));
    const Error error = error_of([&channel = two] { (void)channel.receive(patience, 99); });
    EXPECT_EQ(error.status(), Status::mismatch);
    EXPECT_NE(std::string(error.what()).find("100"), std::string::npos);

    int sockets[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    Channel reader(sockets[0]);
    constexpr char request[] = "GET / HTTP/1.1\r\n\r\n";
    ASSERT_EQ(write(sockets[1], request, sizeof request), static_cast<ssize_t>(sizeof request));
    EXPECT_EQ(status_of([&] { (void)reader.receive(patience); }), Status::mismatch);
    close(sockets[1]);
}

TEST(Channels, TellWhenThePeerIsGone) {
    auto [one, two] = channels();
    { const Channel gone = std::move(one); }
    EXPECT_EQ(status_of([&channel = two] { (void)channel.receive(patience); }), Status::remote_disconnect);
}

/// Who waits for days has to learn that the other machine has gone.
TEST(Channels, TheKernelAsksWhetherAPeerIsStillThere) {
    Listener listener("127.0.0.1", 0);
    Channel there = Channel::connect("127.0.0.1", listener.port(), patience);
    Channel here = listener.accept(patience);
    for (const Channel* channel : {&there, &here}) {
        int on = 0;
        socklen_t size = sizeof on;
        ASSERT_EQ(getsockopt(channel->descriptor(), SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
        EXPECT_NE(on, 0);
    }
}

/// Under Kubernetes a name comes into being with the process behind it.
TEST(Channels, ConnectWaitsForALateName) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(status_of([] { (void)Channel::connect("not a host name", 1, 300ms); }), Status::not_found);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms);
}

/// The kernel may choose the port that nobody listens at as the one to connect from.
TEST(Channels, AConnectionToItselfIsNobodys) {
    const std::uint16_t port = Listener("127.0.0.1", 0).port();
    connected_from_itself = htons(port);
    EXPECT_EQ(status_of([&] { (void)Channel::connect("127.0.0.1", port, 200ms); }), Status::canceled);
    connected_from_itself = 0;
}

TEST(Channels, ConnectWaitsForALateListener) {
    const std::uint16_t port = Listener("127.0.0.1", 0).port();
    std::thread late([port] {
        Listener listener("127.0.0.1", port);
        Channel channel = listener.accept(patience);
        channel.send("welcome");
    });
    Channel channel = Channel::connect("127.0.0.1", port, patience);
    EXPECT_EQ(channel.receive(patience), "welcome");
    late.join();
}

/// As processes of a group do that start together, while the one that they meet at has no time yet.
TEST(Channels, ManyConnectBeforeAnybodyIsTaken) {
    Listener listener("127.0.0.1", 0);
    std::vector<Channel> waiting;
    for (int i = 0; i < 64; ++i)
        ASSERT_NO_THROW(waiting.push_back(Channel::connect("127.0.0.1", listener.port(), 500ms))) << i;
    waiting.back().send("last");
    std::vector<Channel> taken;
    for (int i = 0; i < 64; ++i)
        taken.push_back(listener.accept(patience));
    EXPECT_EQ(taken.back().receive(patience), "last");
}

/// Somebody who listens and takes nobody any more: the kernel swallows what comes, as a filter does.
class Swallowing {
  public:
    Swallowing(const char* address, std::uint16_t port) : listener_(address, port) {
        EXPECT_EQ(listen(listener_.descriptor(), 0), 0);
        for (int i = 0; i < 64; ++i) {
            try {
                waiting_.push_back(Channel::connect(address, port, 100ms));
            } catch (const Error&) {
                return;
            }
        }
        ADD_FAILURE() << "there is always room for one more";
    }

  private:
    Listener listener_;
    std::vector<Channel> waiting_;
};

TEST(Channels, AnAddressThatSwallowsEverythingKeepsNobodyFromTheOthers) {
    for (const bool first : {true, false}) {
        Listener late(first ? "127.0.0.3" : "127.0.0.2", 0);
        const std::uint16_t port = late.port();
        const Swallowing mute(first ? "127.0.0.2" : "127.0.0.3", port);
        for (const auto time : {900ms, 20'000ms}) {
            const auto began = std::chrono::steady_clock::now();
            Channel here = Channel::connect(of_both, port, time);
            Channel there = late.accept(patience);
            there.send("welcome");
            EXPECT_EQ(here.receive(patience), "welcome");
            EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
        }
        // Who comes late is found, whichever address swallows.
        { const Listener gone = std::move(late); }
        std::thread coming([&] {
            std::this_thread::sleep_for(200ms);
            Listener again(first ? "127.0.0.3" : "127.0.0.2", port);
            again.accept(patience).send("late");
        });
        EXPECT_EQ(Channel::connect(of_both, port, patience).receive(patience), "late");
        coming.join();
        const auto began = std::chrono::steady_clock::now();
        EXPECT_EQ(status_of([&] { (void)Channel::connect(of_both, port, 700ms); }), Status::canceled);
        EXPECT_LT(std::chrono::steady_clock::now() - began, 5s) << "no longer than told";
    }
}

}  // namespace
}  // namespace railyard::test
