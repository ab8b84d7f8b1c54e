// The rendezvous over plain sockets, with a thread for each process.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "failure.h"
#include "group/socket_rendezvous.h"

namespace railyard::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto plenty = 20s;

/// The text of the Failure that `call` throws; "" where it throws none.
template <class Call>
std::string failure_of(Call call) {
    try {
        call();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "";
}

class SocketRendezvousTest : public testing::Test {
  protected:
    using Pointer = std::unique_ptr<Rendezvous>;
    using Ranks = std::vector<std::optional<unsigned>>;

    std::future<Pointer> coordinate(unsigned world, std::chrono::milliseconds timeout = plenty) {
        host::Listener listener("127.0.0.1", 0);
        port_ = listener.port();
        return std::async(std::launch::async,
                          [world, timeout, own = std::move(listener)]() mutable -> Pointer {
                              return std::make_unique<SocketRendezvous>(std::move(own), world, timeout);
                          });
    }

    std::future<Pointer> arrive(unsigned world, std::optional<unsigned> rank = std::nullopt,
                                std::chrono::milliseconds timeout = plenty) {
        return std::async(std::launch::async, [=, port = port_]() -> Pointer {
            Control control(host::Channel::connect("127.0.0.1", port, timeout));
            return std::make_unique<SocketRendezvous>(std::move(control), world, rank, timeout);
        });
    }

    /// A whole group, by rank.
    std::vector<Pointer> group(const Ranks& others) {
        const auto world = static_cast<unsigned>(others.size()) + 1;
        std::vector<std::future<Pointer>> arriving;
        arriving.push_back(coordinate(world));
        for (const auto& rank : others)
            arriving.push_back(arrive(world, rank));
        std::vector<Pointer> all(world);
        for (auto& one : arriving) {
            Pointer there = one.get();
            const unsigned rank = there->rank();
            EXPECT_FALSE(all.at(rank)) << "rank " << rank << " twice";
            all[rank] = std::move(there);
        }
        return all;
    }

    /// What each of them gets, "" for those that are not asked.
    static std::vector<std::string> texts_of_exchange(std::vector<Pointer>& all, const std::string& phase,
                                                      unsigned without, std::chrono::milliseconds limit) {
        std::vector<std::future<std::string>> waiting;
        for (auto& one : all) {
            const bool asked = one && one->rank() != without;
            waiting.push_back(std::async(std::launch::async, [&one, asked, phase, limit] {
                return failure_of([&] {
                    if (asked) static_cast<void>(one->exchange(phase, "x", limit));
                });
            }));
        }
        std::vector<std::string> texts;
        for (auto& one : waiting)
            texts.push_back(one.get());
        return texts;
    }

    /// What one that waits for nothing hears when it asks: others may have heard of it before.
    static std::string news_for(Rendezvous& one) {
        const auto limit = std::chrono::steady_clock::now() + plenty;
        std::string text;
        while (text.empty() && std::chrono::steady_clock::now() < limit)
            text = failure_of([&] { one.check(); });
        return text;
    }

    static void leave(std::vector<Pointer>& all) {
        for (auto& one : all)
            one->leave();
        disband(all);
    }

    /// Rank 0 waits for the others.
    static void disband(std::vector<Pointer>& all) {
        while (!all.empty())
            all.pop_back();
    }

    /// What one hears that has come to another program, which says its word to whoever connects.
    std::string news_of_a_stranger(const std::string& word) {
        host::Listener listener("127.0.0.1", 0);
        port_ = listener.port();
        auto arriving = arrive(2, 1, 5s);
        const host::Channel guest = listener.accept(plenty);
        EXPECT_EQ(send(guest.descriptor(), word.data(), word.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(word.size()));
        return failure_of([&] { arriving.get(); });
    }

    std::uint16_t port_ = 0;
};

constexpr unsigned nobody = ~0u;

TEST_F(SocketRendezvousTest, EverybodyGetsWhatEverybodySays) {
    auto all = group(Ranks(5));
    EXPECT_EQ(all.front()->members().size(), 6u);
    EXPECT_NE(all.back()->members().front().find("process " + std::to_string(getpid())), std::string::npos);
    for (int round = 0; round < 20; ++round) {
        std::vector<std::future<std::vector<std::string>>> answers;
        for (auto& one : all) {
            answers.push_back(std::async(std::launch::async, [&one, round] {
                const std::string value(one->rank() * 100'000, static_cast<char>('a' + one->rank()));
                return one->exchange(std::to_string(round), value, plenty);
            }));
        }
        for (auto& answer : answers) {
            const auto values = answer.get();
            ASSERT_EQ(values.size(), 6u);
            for (unsigned rank = 0; rank < 6; ++rank)
                EXPECT_EQ(values[rank], std::string(rank * 100'000, static_cast<char>('a' + rank)));
        }
        for (auto& one : all)
            EXPECT_NO_THROW(one->check());
    }
    leave(all);
}

TEST_F(SocketRendezvousTest, RanksAskedForAreKeptAndTheOthersFillTheRest) {
    auto all = group({3, std::nullopt, 1, std::nullopt});
    for (const auto& one : all)
        EXPECT_TRUE(one);
    leave(all);
}

TEST_F(SocketRendezvousTest, WhoHasNotArrivedIsNamed) {
    auto first = coordinate(4, 1500ms);
    auto third = arrive(4, 3);
    const std::string text = "ranks 1, 2 of 4 have not arrived within 1.5 s";
    EXPECT_EQ(failure_of([&] { first.get(); }).substr(0, text.size()), text);
    EXPECT_EQ(failure_of([&] { third.get(); }).substr(0, text.size()), text);
}

TEST_F(SocketRendezvousTest, OthersAreTurnedAwayAndTheGroupDoesNotNotice) {
    auto first = coordinate(3);
    auto second = arrive(3, 1);
    ASSERT_EQ(failure_of([&] { arrive(5).get(); }), "this group has 3 processes, and --world says 5");
    {
        host::Channel stranger = host::Channel::connect("127.0.0.1", port_, plenty);
        stranger.send("GET / HTTP/1.1");
    }
    {
        host::Channel stranger = host::Channel::connect("127.0.0.1", port_, plenty);
        try {
            stranger.send(
                std::string(800'000, '\x81'));  // lists in lists: who reads them needs stack for each
        } catch (const Error&) {                // turned away before all of it has been sent
        }
    }
    {
        Control stranger(host::Channel::connect("127.0.0.1", port_, plenty));
        stranger.send({{"hello", 7}, {"rank", "x"}});
    }
    const std::string taken = failure_of([&] { arrive(3, 0).get(); });
    EXPECT_EQ(taken.find("rank 0 is taken by host "), 0u) << taken;
    auto third = arrive(3);
    std::vector<Pointer> all;
    all.push_back(first.get());
    all.push_back(second.get());
    all.push_back(third.get());
    EXPECT_EQ(all.back()->rank(), 2u);
    EXPECT_EQ(failure_of([&] { arrive(3).get(); }), "all 3 processes are there already");
    EXPECT_EQ(texts_of_exchange(all, "one", nobody, plenty), std::vector<std::string>(3));
    leave(all);
}

/// Those who say nothing take some time each, and come first.
TEST_F(SocketRendezvousTest, ThoseWhoSayNothingDoNotPutOffTheEnd) {
    const auto began = std::chrono::steady_clock::now();
    auto first = coordinate(2, 1s);
    std::vector<host::Channel> silent;
    for (int i = 0; i < 5; ++i)
        silent.push_back(host::Channel::connect("127.0.0.1", port_, plenty));
    const std::string text = failure_of([&] { first.get(); });
    EXPECT_NE(text.find("rank 1 of 2 has not arrived within 1 s"), std::string::npos) << text;
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

/// Health checks, say: each is turned away after its time, and none takes that of the group.
TEST_F(SocketRendezvousTest, ThoseWhoSayNothingKeepNobodyWaiting) {
    auto first = coordinate(4, 3s);
    std::vector<host::Channel> silent;
    for (int i = 0; i < 8; ++i)
        silent.push_back(host::Channel::connect("127.0.0.1", port_, plenty));
    std::vector<std::future<Pointer>> others;
    for (int i = 0; i < 3; ++i)
        others.push_back(arrive(4));
    std::vector<Pointer> all;
    all.push_back(first.get());
    for (auto& other : others)
        all.push_back(other.get());
    for (auto& one : silent) {
        try {
            static_cast<void>(one.receive(plenty));
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), Status::remote_disconnect) << "it is turned away, group or not";
        }
    }
    EXPECT_EQ(texts_of_exchange(all, "one", nobody, plenty), std::vector<std::string>(4));
    leave(all);
}

TEST_F(SocketRendezvousTest, OneThatGoesBeforeTheStartIsReplaced) {
    auto first = coordinate(4);
    {
        Control early(host::Channel::connect("127.0.0.1", port_, plenty));
        early.send(hello_message(4, 2));
    }
    auto again = arrive(4, 2);
    auto third = arrive(4);
    auto fourth = arrive(4);
    std::vector<Pointer> all;
    for (auto* one : {&first, &again, &third, &fourth})
        all.push_back(one->get());
    EXPECT_EQ(all[1]->rank(), 2u);
    leave(all);
}

TEST_F(SocketRendezvousTest, WhoIsLateIsNamed) {
    auto all = group(Ranks(3));
    const auto texts = texts_of_exchange(all, "moved", 2, 1500ms);
    for (unsigned rank : {0u, 1u, 3u})
        EXPECT_EQ(texts[rank].find("rank 2 of 4 has not reached \"moved\" within 1.5 s"), 0u) << texts[rank];
    EXPECT_NE(news_for(*all[2]).find("rank 2 of 4"), std::string::npos);
    disband(all);
}

TEST_F(SocketRendezvousTest, AReasonReachesAllOthers) {
    auto all = group(Ranks(3));
    all[1]->fail("out of memory");
    const auto texts = texts_of_exchange(all, "moved", 1, plenty);
    for (unsigned rank : {0u, 2u, 3u}) {
        EXPECT_EQ(texts[rank].find("rank 1 (host "), 0u) << texts[rank];
        EXPECT_NE(texts[rank].find("failed: out of memory"), std::string::npos) << texts[rank];
    }
    disband(all);
}

TEST_F(SocketRendezvousTest, OneThatHasGoneIsNamedToThoseThatWaitAndThoseThatAsk) {
    auto all = group(Ranks(3));
    all[3].reset();
    const auto texts = texts_of_exchange(all, "moved", 2, plenty);
    for (unsigned rank : {0u, 1u})
        EXPECT_TRUE(texts[rank].find("rank 3 (host ") == 0 &&
                    texts[rank].find("has gone") != std::string::npos)
            << texts[rank];
    EXPECT_NE(news_for(*all[2]).find("rank 3"), std::string::npos);
    disband(all);
}

TEST_F(SocketRendezvousTest, TheCoordinatorThatHasGoneIsNamed) {
    auto all = group(Ranks(2));
    std::thread going([&] { all[0].reset(); });  // waits for the others
    const std::string text = failure_of([&] { static_cast<void>(all[1]->exchange("moved", "", plenty)); });
    EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
    all[1].reset();
    all[2].reset();
    going.join();
}

TEST_F(SocketRendezvousTest, OneThatIsElsewhereIsNamed) {
    auto all = group(Ranks(2));
    auto first = std::async(std::launch::async, [&] {
        return failure_of([&] { static_cast<void>(all[0]->exchange("here", "", plenty)); });
    });
    auto second = std::async(std::launch::async, [&] {
        return failure_of([&] { static_cast<void>(all[1]->exchange("there", "", plenty)); });
    });
    const std::string text = first.get();
    EXPECT_NE(text.find("\"here\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"there\""), std::string::npos) << text;
    EXPECT_EQ(second.get(), text);
    disband(all);
}

/// One that stands still before it leaves: rank 0 has printed its table, and says whom it waits for no
/// longer.
TEST_F(SocketRendezvousTest, WhoDoesNotLeaveHoldsTheCoordinatorForItsTimeoutOnly) {
    auto first = coordinate(2, 2s);
    auto second = arrive(2);
    std::vector<Pointer> all;
    all.push_back(first.get());
    all.push_back(second.get());
    EXPECT_EQ(texts_of_exchange(all, "end", nobody, plenty), std::vector<std::string>(2));
    all[0]->leave();
    testing::internal::CaptureStderr();
    std::promise<void> ended;
    std::thread going([&] {
        all[0].reset();
        ended.set_value();
    });
    EXPECT_EQ(ended.get_future().wait_for(plenty), std::future_status::ready);
    all[1]->leave();
    all[1].reset();
    going.join();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("rank 1 of 2 has not left within 2 s"), std::string::npos) << log;
}

/// Together they are longer than a message may be.
TEST_F(SocketRendezvousTest, OnlyTheValueOfEachHasALimit) {
    constexpr std::size_t length = host::default_max_message / 2 + (1 << 20);
    auto all = group(Ranks(1));
    std::vector<std::future<std::vector<std::string>>> answers;
    for (auto& one : all) {
        answers.push_back(std::async(std::launch::async, [&one] {
            const std::string value(length, static_cast<char>('a' + one->rank()));
            return one->exchange("opened", value, 3 * plenty);  // a sanitizer takes its time
        }));
    }
    for (auto& answer : answers) {
        std::vector<std::string> values;
        EXPECT_EQ(failure_of([&] { values = answer.get(); }), "");
        ASSERT_EQ(values.size(), 2u);
        for (unsigned rank = 0; rank < 2; ++rank)
            EXPECT_TRUE(values[rank] == std::string(length, static_cast<char>('a' + rank)));
    }
    leave(all);
}

TEST_F(SocketRendezvousTest, AnotherProgramAtThePortIsToldFromACoordinatorThatHasGone) {
    const std::string ssh = news_of_a_stranger("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    EXPECT_NE(
        ssh.find("rank 0, which coordinates the group, sent something that is no railyard-bench message"),
        std::string::npos)
        << ssh;
    EXPECT_NE(ssh.find("no other program"), std::string::npos) << ssh;
    std::string frame("RYX1\0\0\0\0\1\0\0\0", 12);
    const std::string text = news_of_a_stranger(frame);
    EXPECT_NE(text.find("4294967296 bytes, the limit is 67108864"), std::string::npos) << text;
}

TEST_F(SocketRendezvousTest, OneThatSendsWhatIsNoMessageIsToldFromOneThatHasGone) {
    auto first = coordinate(2);
    Control control(host::Channel::connect("127.0.0.1", port_, plenty));
    control.send(hello_message(2, 1));
    const Pointer there = first.get();
    static_cast<void>(control.receive(plenty));
    EXPECT_EQ(send(control.descriptor(), "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
    const std::string text = news_for(*there);
    EXPECT_EQ(text.find("rank 1 (host "), 0u) << text;
    EXPECT_NE(text.find(") sent something that is no railyard-bench message"), std::string::npos) << text;
}

/// Two processes of this host with no rank: the first that can listen coordinates.
TEST_F(SocketRendezvousTest, WhoComesFirstCoordinates) {
    {
        host::Listener free("127.0.0.1", 0);
        port_ = free.port();
    }
    GroupOptions options;
    options.world = 3;
    options.rendezvous = RendezvousAddress{RendezvousAddress::Kind::tcp, false, "127.0.0.1", port_, ""};
    std::vector<std::future<Pointer>> arriving;
    for (int i = 0; i < 3; ++i)
        arriving.push_back(std::async(std::launch::async, [&] { return meet(options, plenty); }));
    std::vector<Pointer> all(3);
    for (auto& one : arriving) {
        Pointer there = one.get();
        all[there->rank()] = std::move(there);
    }
    leave(all);
}

}  // namespace
}  // namespace railyard::bench
