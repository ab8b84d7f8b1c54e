// What a process holds out to the others of its host, and what they see by it alone.
#include "rail/host_card.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>

#include "common/status.h"
#include "forbid_process_vm.h"
#include "host_process.h"
#include "sanitized.h"
#include "simulated_yama.h"

namespace railyard {
namespace {

class HostCardTest : public testing::Test {
  protected:
    OtherProcess other_{4096};
};

/// What a forked child finds; it ends with that as its status.
int in_child(const std::function<int()>& find) {
    const pid_t child = fork();
    if (child == 0) {
        int found = 99;
        try {
            found = find();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        _exit(found);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

/// What a look finds once it finds none of these any more.
int later_than(const HostProcess& process, std::initializer_list<int> before) {
    int found = process.look();
    for (int i = 0; i < 5000 && std::find(before.begin(), before.end(), found) != before.end(); ++i) {
        usleep(1000);
        found = process.look();
    }
    return found;
}

/// With the card alone it is known who is there, and whether it still is.
TEST_F(HostCardTest, WithoutRightsToCopyItsCardIsReadAllTheSame) {
    const auto forbidden = [&](const std::function<int(HostProcess&)>& find) {
        return in_child([&] {
            if (!test::forbid_process_vm()) return 98;
            HostProcess process(other_.card);
            if (process.may_copy()) return 97;
            return find(process);
        });
    };
    EXPECT_TRUE(HostProcess(other_.card).may_copy());
    EXPECT_EQ(forbidden([&](HostProcess& process) {
                  return process.look() == 0 && process.vouches_for(other_.key) &&
                                 !process.vouches_for(other_.key + 1)
                             ? 0
                             : 1;
              }),
              0);
    EXPECT_EQ(forbidden([&](HostProcess& process) {
                  other_.change(OtherProcess::deregister);
                  return !process.vouches_for(other_.key) && process.look() == 0 ? 0 : 1;
              }),
              0);
    EXPECT_EQ(forbidden([&](HostProcess& process) {
                  other_.change(OtherProcess::close_rail);
                  return process.look();
              }),
              ESTALE);
}

TEST_F(HostCardTest, WithoutRightsToCopyItsEndIsSeenAllTheSame) {
    EXPECT_EQ(in_child([&] {
                  if (!test::forbid_process_vm()) return 98;
                  HostProcess process(other_.card);
                  kill(other_.pid(), SIGKILL);  // nobody waits for it: it stays a zombie
                  return later_than(process, {0, ENOLINK});
              }),
              ESRCH);
}

TEST_F(HostCardTest, WithoutRightsToCopyTheEndOfItsMainThreadIsNotTakenForItsOwn) {
    EXPECT_EQ(in_child([&] {
                  if (!test::forbid_process_vm()) return 98;
                  HostProcess process(other_.card);
                  other_.change(OtherProcess::end_main_thread);
                  return later_than(process, {0});
              }),
              ENOLINK);
}

TEST_F(HostCardTest, WithoutRightsToCopyNobodyElseIsTakenForThePeer) {
    constexpr std::size_t pid_at = 17, secret_at = 33;
    std::string other_secret = other_.card, other_pid = other_.card;
    other_secret[secret_at] = static_cast<char>(~other_secret[secret_at]);
    const auto own = static_cast<std::uint32_t>(getpid());  // the test's, which has no card there
    other_pid.replace(pid_at, sizeof(own), reinterpret_cast<const char*>(&own), sizeof(own));
    for (const std::string& card : {other_secret, other_pid}) {
        EXPECT_EQ(in_child([&] {
                      if (!test::forbid_process_vm()) return 98;
                      try {
                          const HostProcess process(card);
                      } catch (const Error& error) {
                          return error.status() == Status::not_supported ? 0 : 1;
                      }
                      return 2;
                  }),
                  0);
    }
}

/// Which passes: unlike what else keeps a process from us.
TEST_F(HostCardTest, AShortageOfDescriptorsIsToldFromWhatLasts) {
    if (test::sanitized) GTEST_SKIP() << "its looks at objects need descriptors of their own";
    EXPECT_EQ(in_child([&] {
                  const rlimit none{0, 0};
                  if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
                  try {
                      HostProcess process(other_.card);
                  } catch (const Error& error) {
                      const std::string text = error.what();
                      return error.status() == Status::backend &&
                                     text.find("Too many open files") < text.size()
                                 ? 0
                                 : 2;
                  }
                  return 3;
              }),
              0);
}

/// It could be made shorter under who has it mapped: a peer may name any file that it has open.
TEST(HostCard, AFileThatMayShrinkIsNoCard) {
    const std::string path = testing::TempDir() + "railyard-no-card-" + std::to_string(getpid());
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    unlink(path.c_str());
    ASSERT_EQ(ftruncate(fd, card_size), 0);
    const CardFace face;
    ASSERT_EQ(pwrite(fd, &face, sizeof(face), 0), static_cast<ssize_t>(sizeof(face)));
    const CardAddress address{boot_id(), getpid(), fd, reinterpret_cast<std::uint64_t>(&face), face.secret};
    try {
        const HostProcess process(encode(address));
        ADD_FAILURE() << "taken for a card";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::not_supported) << error.what();
        EXPECT_NE(std::string(error.what()).find("is no card"), std::string::npos) << error.what();
    }
    close(fd);
}

/// Ubuntu's default: a process may reach its descendants, and whoever has said that it lets others.
TEST(HostCard, ProcessesOfOneUserReachEachOtherWhereYamaKeepsThemApart) {
    const auto may_copy = [](OtherProcess& other) {
        return in_child([&] { return HostProcess(other.card).may_copy() ? 1 : 0; });
    };
    test::SimulatedYama yama([&] {
        OtherProcess other(4096);
        if (may_copy(other) != 1) return 1;
        other.change(OtherProcess::forbid_tracers);
        return may_copy(other) == 0 ? 0 : 2;
    });
    EXPECT_EQ(yama.run(), 0);
    EXPECT_GT(yama.forbidden(), 0);
}

/// As an address comes: bytes of a peer.
TEST(HostCard, AnAddressIsWholeOrNone) {
    const CardAddress address{{1, 2, 3}, 4711, 5, 0x7f0000001000, {9, 8}};
    const std::string bytes = encode(address);
    const CardAddress read = decode_card_address(bytes);
    EXPECT_EQ(read.boot, address.boot);
    EXPECT_EQ(read.pid, address.pid);
    EXPECT_EQ(read.descriptor, address.descriptor);
    EXPECT_EQ(read.card, address.card);
    EXPECT_EQ(read.secret, address.secret);
    const auto refused = [](const CardAddress& other) {
        EXPECT_THROW(static_cast<void>(decode_card_address(encode(other))), Error) << other.pid;
    };
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_THROW(static_cast<void>(decode_card_address(bytes.substr(0, size))), Error) << size;
    EXPECT_THROW(static_cast<void>(decode_card_address(bytes + '\0')), Error);
    EXPECT_THROW(static_cast<void>(decode_card_address('\2' + bytes.substr(1))), Error);
    CardAddress other = address;
    for (const std::int32_t nobody : {0, -1, INT32_MIN}) {
        other.pid = nobody;
        refused(other);
    }
}

TEST(HostCard, WordsComeOnceAndPlacesAgain) {
    HostCard card;
    const HostProcess ourselves(card.address());
    const std::uint64_t first = card.issue(), second = card.issue();
    EXPECT_NE(first, second);
    EXPECT_TRUE(ourselves.vouches_for(first));
    card.revoke(first);
    EXPECT_FALSE(ourselves.vouches_for(first));
    EXPECT_FALSE(ourselves.vouches_for(0));
    EXPECT_TRUE(ourselves.vouches_for(second));
    std::vector<std::uint64_t> all{second};
    while (const std::uint64_t word = card.issue())
        all.push_back(word);
    EXPECT_EQ(all.size(), card_words);
    const auto same_place = [&](std::uint64_t word) {
        return (word & (card_words - 1)) == (first & (card_words - 1));
    };
    const auto in_its_place = std::find_if(all.begin(), all.end(), same_place);
    ASSERT_NE(in_its_place, all.end());
    EXPECT_NE(*in_its_place, first);
    card.revoke(all.back());
    EXPECT_NE(card.issue(), 0u);
}

TEST(HostCard, AWordIsIssuedAgainToWhoHadItBefore) {
    HostCard card;
    const HostProcess ourselves(card.address());
    const std::uint64_t word = card.issue();
    EXPECT_NE(card.issue(word), word) << "it is out";
    for (int time = 0; time < 3; ++time) {
        card.revoke(word);
        EXPECT_FALSE(ourselves.vouches_for(word));
        ASSERT_EQ(card.issue(word), word);
        EXPECT_TRUE(ourselves.vouches_for(word));
    }
    card.revoke(word);
    // Its place is the last to be given to others.
    std::vector<std::uint64_t> others;
    for (std::size_t i = 0; i < HostCard::kept_places; ++i)
        others.push_back(card.issue());
    for (const std::uint64_t other : others)
        card.revoke(other);
    EXPECT_EQ(card.issue(word), word);
    card.revoke(word);
    for (std::size_t i = 0; i < 2 * HostCard::kept_places; ++i)
        card.revoke(card.issue());
    const std::uint64_t stranger = 0x123456789abc0000 | (card_words - 1);
    EXPECT_NE(card.issue(stranger), stranger) << "a place that never was";
}

}  // namespace
}  // namespace railyard
