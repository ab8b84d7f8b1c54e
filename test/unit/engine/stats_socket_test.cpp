#include "engine/stats_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>

#include "common/descriptor.h"
#include "common/status.h"
#include "common/unix_address.h"
#include "few_files.h"
#include "left_open.h"
#include "log_lines.h"
#include "unix_client.h"
#include "working_directory.h"

namespace railyard {
namespace {

namespace fs = std::filesystem;
using test::open_files;
using test::UnixClient;

class StatsSocketTest : public testing::Test {
  protected:
    StatsSocketTest() {
        std::string name = (fs::temp_directory_path() / "socket-XXXXXX").string();
        directory_ = mkdtemp(name.data());
    }
    ~StatsSocketTest() override { fs::remove_all(directory_); }
    [[nodiscard]] std::string path() const { return (directory_ / "engine.sock").string(); }
    void listen() { socket_ = std::make_unique<StatsSocket>(path(), "alpha", 7); }
    /// At that time, in ms since the beginning of this test.
    std::uint64_t serve(std::uint64_t ms) {
        return socket_->serve(1'000'000'000 + ms * 1'000'000, [this] {
            ++reports_;
            return report_;
        });
    }
    std::string refusal(Status status, const std::string& pattern) {
        try {
            const StatsSocket another(pattern, "alpha", 7);
        } catch (const Error& error) {
            EXPECT_EQ(error.status(), status) << error.what();
            EXPECT_NE(std::string(error.what()).find("stats_socket"), std::string::npos) << error.what();
            return error.what();
        }
        return "accepted";
    }

    fs::path directory_;
    test::LogLines log_;
    std::string report_ = "a report\n# EOF\n";
    int reports_ = 0;
    std::unique_ptr<StatsSocket> socket_;
};

TEST_F(StatsSocketTest, WhoHasNothingToSayGetsTheReportAtOnce) {
    listen();
    EXPECT_EQ(serve(0), UINT64_MAX) << "nobody is there";
    EXPECT_EQ(reports_, 0) << "made for nobody";
    UnixClient client(path());
    client.say_no_more();
    EXPECT_EQ(serve(0), UINT64_MAX);
    EXPECT_EQ(client.hear(), report_);
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(client.error(), 0);
}

TEST_F(StatsSocketTest, WhoIsSilentGetsItAfterAMoment) {
    listen();
    UnixClient client(path());
    EXPECT_LT(serve(0), UINT64_MAX) << "it has to be looked after";
    serve(99);
    EXPECT_EQ(client.hear(), "");
    serve(100);
    EXPECT_EQ(client.hear(), report_);
    EXPECT_TRUE(client.ended());
}

TEST_F(StatsSocketTest, WhoSaysAnythingElseThanHttpGetsItPlain) {
    listen();
    UnixClient line(path()), words(path());
    line.say("hello\nworld\n");
    words.say("no line");
    serve(0);
    EXPECT_EQ(line.hear(), report_);
    EXPECT_EQ(line.error(), 0);
    EXPECT_EQ(words.hear(), "");
    serve(100);
    EXPECT_EQ(words.hear(), report_);
}

TEST_F(StatsSocketTest, HttpGetsItsHeadAndBody) {
    listen();
    UnixClient client(path());
    client.say("GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
    serve(0);
    serve(1000);
    EXPECT_EQ(client.hear(), "") << "its request is not over";
    client.say("Accept: */*\r\n\r\n");
    serve(1001);
    EXPECT_EQ(
        client.hear(),
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
            std::to_string(report_.size()) + "\r\nConnection: close\r\n\r\n" + report_);
    EXPECT_TRUE(client.ended());
}

TEST_F(StatsSocketTest, HttpThatIsNotAskedRightIsTold) {
    listen();
    UnixClient post(path()), cut(path()), endless(path());
    post.say("POST / HTTP/1.1\r\n\r\n");
    cut.say("GET / HTTP/1.0\r\nHost");
    cut.say_no_more();
    endless.say("GET / HTTP/1.0\r\nX: " + std::string(StatsClient::longest_request, 'x'));
    serve(0);
    EXPECT_TRUE(post.hear().starts_with("HTTP/1.0 405 Method Not Allowed\r\nAllow: GET\r\n")) << post.hear();
    EXPECT_TRUE(cut.hear().starts_with("HTTP/1.0 400 ")) << cut.hear();
    EXPECT_TRUE(endless.hear().starts_with("HTTP/1.0 400 ")) << endless.hear();
    for (const UnixClient* client : {&post, &cut, &endless}) {
        EXPECT_TRUE(client->ended());
        EXPECT_EQ(client->error(), 0);
    }
    EXPECT_EQ(reports_, 0);
}

TEST_F(StatsSocketTest, ASlowClientHoldsUpNobodyAndIsCutOff) {
    report_.assign(8 << 20, 'r');
    listen();
    const std::size_t before = open_files();
    {
        UnixClient slow(path());
        slow.say_no_more();
        serve(0);
        serve(20);
        UnixClient other(path());
        other.say_no_more();
        for (std::uint64_t ms = 40; !other.ended() && ms < 4000; ms += 20) {
            serve(ms);
            other.hear();
        }
        EXPECT_EQ(other.hear().size(), report_.size());
        EXPECT_EQ(open_files(), before + 3) << "the clients' ends, and ours of the slow one";
        EXPECT_EQ(serve(5000), UINT64_MAX);
        EXPECT_LT(slow.hear().size(), report_.size());
        EXPECT_TRUE(slow.ended());
    }
    EXPECT_EQ(open_files(), before);
}

TEST_F(StatsSocketTest, ASilentHttpClientIsCutOff) {
    listen();
    UnixClient client(path());
    client.say("GET / HTTP/1.1\r\n");
    serve(0);
    EXPECT_LT(serve(4999), UINT64_MAX);
    EXPECT_EQ(serve(5000), UINT64_MAX);
    EXPECT_EQ(client.hear(), "");
    EXPECT_TRUE(client.ended());
}

TEST_F(StatsSocketTest, ManyAreServedAFewAtATime) {
    listen();
    const std::size_t before = open_files();
    std::list<UnixClient> clients;
    for (int i = 0; i < 16; ++i)
        EXPECT_TRUE(clients.emplace_back(path()).connected());
    std::size_t most = 0;
    std::uint64_t ms = 0;
    for (; ms < 1000; ms += 20) {
        serve(ms);
        most = std::max(most, open_files() - before - clients.size());
    }
    EXPECT_EQ(most, StatsSocket::most_clients);
    for (UnixClient& client : clients)
        EXPECT_EQ(client.hear(), report_);
    EXPECT_EQ(open_files(), before + clients.size());
    EXPECT_LE(reports_, 2) << "one for each that came at the same time";
}

TEST_F(StatsSocketTest, WhoGoesIsForgotten) {
    report_.assign(1 << 20, 'r');
    listen();
    const std::size_t before = open_files();
    auto silent = std::make_unique<UnixClient>(path());
    auto reading = std::make_unique<UnixClient>(path());
    reading->say_no_more();
    serve(0);
    silent.reset();
    reading.reset();
    serve(1);
    EXPECT_EQ(serve(2), UINT64_MAX);
    EXPECT_EQ(open_files(), before);
}

TEST_F(StatsSocketTest, IsForItsUserAndGoes) {
    const mode_t mask = umask(0);
    listen();
    umask(mask);
    struct stat file {};
    ASSERT_EQ(stat(path().c_str(), &file), 0);
    EXPECT_TRUE(S_ISSOCK(file.st_mode));
    EXPECT_EQ(file.st_mode & 0777, 0600u);
    socket_.reset();
    EXPECT_FALSE(fs::exists(path()));
}

TEST_F(StatsSocketTest, LeavesWhatAnotherHasPutInItsPlace) {
    listen();
    fs::remove(path());
    std::ofstream(path()) << "mine";
    socket_.reset();
    EXPECT_EQ(fs::file_size(path()), 4u);
}

TEST_F(StatsSocketTest, OneThatIsServedIsRefusedAndGoesOn) {
    listen();
    const std::string said = refusal(Status::not_allowed, path());
    EXPECT_NE(said.find("somebody serves it"), std::string::npos) << said;
    EXPECT_NE(said.find("%p"), std::string::npos) << said;
    serve(0);
    UnixClient client(path());
    client.say_no_more();
    serve(1);
    EXPECT_EQ(client.hear(), report_);
}

TEST_F(StatsSocketTest, OneThatNobodyServesIsReplaced) {
    const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const UnixAddress address(path());
    ASSERT_EQ(bind(left, address.get(), address.length()), 0);
    ASSERT_EQ(::listen(left, 1), 0);
    close(left);
    listen();
    UnixClient client(path());
    client.say_no_more();
    serve(0);
    EXPECT_EQ(client.hear(), report_);
}

/// As a program leaves it that has started others without exec, and was killed.
TEST_F(StatsSocketTest, OneWhoseProcessHasGoneIsReplacedThoughAChildHoldsIt) {
    int ready[2], over[2];
    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(over), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        listen();
        if (fork() == 0) {
            close(over[1]);
            char byte = 'x';
            if (write(ready[1], &byte, 1) != 1 || read(over[0], &byte, 1) < 0) _exit(1);
            _exit(0);
        }
        _exit(0);
    }
    close(over[0]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
    EXPECT_TRUE(UnixClient(path()).connected()) << "the child does not hold it";
    listen();
    UnixClient client(path());
    client.say_no_more();
    serve(0);
    EXPECT_EQ(client.hear(), report_);
    close(over[1]);
}

TEST_F(StatsSocketTest, AChildThatHoldsAClientDoesNotKeepItWaiting) {
    listen();
    UnixClient client(path());
    serve(0);
    int over[2];
    ASSERT_EQ(pipe(over), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(over[1]);
        char byte = 0;
        _exit(read(over[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(over[0]);
    serve(100);
    EXPECT_EQ(client.hear(2000), report_);
    EXPECT_TRUE(client.ended()) << "it waits for the child's end";
    socket_.reset();
    EXPECT_FALSE(UnixClient(path()).connected());
    close(over[1]);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(StatsSocketTest, WhatIsNoSocketIsRefusedAndStays) {
    std::ofstream(path()) << "mine";
    const std::string said = refusal(Status::invalid_param, path());
    EXPECT_NE(said.find("no socket"), std::string::npos) << said;
    EXPECT_EQ(fs::file_size(path()), 4u);
}

TEST_F(StatsSocketTest, ABadNameIsRefusedWithTheReason) {
    EXPECT_NE(refusal(Status::invalid_param, "%q").find("after %"), std::string::npos);
    const std::string longer = (directory_ / std::string(200, 'x')).string();
    EXPECT_NE(refusal(Status::invalid_param, longer).find("107"), std::string::npos);
    EXPECT_NE(refusal(Status::backend, (directory_ / "none/a.sock").string()).find("No such file"),
              std::string::npos);
}

TEST_F(StatsSocketTest, AnAbstractNameHasNoFile) {
    const std::string pattern = "@railyard-test-%p-%a";
    socket_ = std::make_unique<StatsSocket>(pattern, "alpha", 7);
    EXPECT_EQ(socket_->name(), "@railyard-test-" + std::to_string(getpid()) + "-alpha");
    EXPECT_NE(refusal(Status::not_allowed, pattern).find("somebody has that name"), std::string::npos);
    UnixClient client(socket_->name());
    client.say_no_more();
    serve(0);
    EXPECT_EQ(client.hear(), report_);
    socket_.reset();
    socket_ = std::make_unique<StatsSocket>(pattern, "alpha", 7);
    EXPECT_TRUE(fs::is_empty(directory_));
}

/// Its file goes with it, wherever the program is by then.
TEST_F(StatsSocketTest, ARelativeNameStaysWhereItBegan) {
    const test::WorkingDirectory started(directory_);
    socket_ = std::make_unique<StatsSocket>("engine.sock", "alpha", 7);
    const test::WorkingDirectory later("/");
    EXPECT_EQ(socket_->name(), path());
    UnixClient client(path());
    client.say_no_more();
    serve(0);
    EXPECT_EQ(client.hear(), report_);
    socket_.reset();
    EXPECT_FALSE(fs::exists(path()));
}

/// An address has room for 107 bytes, which a relative name needs from where it is given alone.
TEST_F(StatsSocketTest, ARelativeNameMayLieDeep) {
    const fs::path deep = directory_ / std::string(120, 'x');
    fs::create_directory(deep);
    const test::WorkingDirectory started(deep);
    socket_ = std::make_unique<StatsSocket>("engine.sock", "alpha", 7);
    const test::WorkingDirectory later("/");
    EXPECT_TRUE(fs::is_socket(deep / "engine.sock"));
    socket_.reset();
    EXPECT_FALSE(fs::exists(deep / "engine.sock"));
}

TEST_F(StatsSocketTest, WhoHasNoDescriptorToLookAtALeftoverWithIsToldSo) {
    {
        const Descriptor left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const UnixAddress address(path());
        ASSERT_EQ(bind(left.get(), address.get(), address.length()), 0);
    }
    const test::FewFiles few(2);
    const std::string text = refusal(Status::backend, path());
    EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
}

}  // namespace
}  // namespace railyard
