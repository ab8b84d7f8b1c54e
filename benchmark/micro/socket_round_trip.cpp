// What a message over loopback TCP takes there and its answer back, when two processes do nothing else: what
// no transfer over tcp that its target answers gets below. Prints one JSON document.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "common/clock.h"
#include "histogram.h"
#include "host_facts.h"

namespace railyard {
namespace {

using bench::Histogram;

void require(bool good, const char* what) {
    if (!good) throw std::system_error(errno, std::generic_category(), what);
}

/// Of two connections that each carry one direction, or of one that carries both: then they are the same.
struct Sockets {
    int out = -1, in = -1;
    void close_all() const {
        close(out);
        if (in != out) close(in);
    }
};

/// One side, without delays, and looked at as libfabric's tcp provider does: epoll, then recv.
class End {
  public:
    /// `sleeps`: waits in the kernel until there is something, else asks again and again.
    End(Sockets sockets, bool sleeps)
        : sockets_(sockets), epoll_(epoll_create1(EPOLL_CLOEXEC)), sleeps_(sleeps) {
        const int on = 1;
        require(setsockopt(sockets.out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        require(epoll_ >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, sockets.in, &wanted) == 0, "epoll");
    }
    ~End() {
        close(epoll_);
        sockets_.close_all();
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    void send(const std::vector<char>& message) const {
        require(::send(sockets_.out, message.data(), message.size(), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(message.size()),
                "send");
    }
    /// False: the other end has gone.
    bool receive(std::vector<char>& message) const {
        for (std::size_t got = 0; got < message.size();) {
            epoll_event ready{};
            const std::uint64_t end = now_ns() + 5'000'000'000;
            while (epoll_wait(epoll_, &ready, 1, sleeps_ ? 5000 : 0) == 0) {
                if (now_ns() > end) throw std::runtime_error("no answer for 5 s");
            }
            const ssize_t more = recv(sockets_.in, message.data() + got, message.size() - got, MSG_DONTWAIT);
            if (more == 0) return false;
            require(more > 0, "recv");
            got += static_cast<std::size_t>(more);
        }
        return true;
    }

  private:
    const Sockets sockets_;
    const int epoll_;
    const bool sleeps_;
};

struct Sizes {
    unsigned there = 0, back = 0;
};

[[noreturn]] void answer(Sockets sockets, Sizes sizes, bool sleeps) {
    try {
        const End end(sockets, sleeps);
        std::vector<char> request(sizes.there);
        const std::vector<char> reply(sizes.back, 'a');
        while (end.receive(request))
            end.send(reply);
        _exit(0);
    } catch (const std::exception&) {
        _exit(1);  // the other end says what is wrong
    }
}

struct Pair {
    int one = -1, other = -1;
};

Pair connection() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    require(listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0 &&
                listen(listener, 1) == 0 &&
                getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0,
            "listen on loopback");
    const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(one >= 0 && connect(one, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0, "connect");
    const int other = accept(listener, nullptr, nullptr);
    require(other >= 0, "accept");
    close(listener);
    return {one, other};
}

Histogram measure(Sizes sizes, bool two, bool sleeps, unsigned rounds) {
    const Pair there = connection(), back = two ? connection() : Pair{there.other, there.one};
    const Sockets ours{there.one, back.other}, theirs{back.one, there.other};
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        ours.close_all();
        answer(theirs, sizes, sleeps);
    }
    theirs.close_all();
    Histogram times;
    {
        const End end(ours, sleeps);
        const std::vector<char> request(sizes.there, 'r');
        std::vector<char> reply(sizes.back);
        for (unsigned i = 0; i < rounds + rounds / 10; ++i) {
            const std::uint64_t begun = now_ns();
            end.send(request);
            if (!end.receive(reply)) throw std::runtime_error("the other process has gone");
            if (i >= rounds / 10) times.add(now_ns() - begun);
        }
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    return times;
}

nlohmann::json run(Sizes sizes, unsigned rounds) {
    nlohmann::json document{{"version", 1},
                            {"host", bench::host_facts()},
                            {"bytes_there", sizes.there},
                            {"bytes_back", sizes.back}};
    for (const bool two : {false, true}) {
        nlohmann::json& all = document[two ? "two_connections" : "one_connection"];
        for (const bool sleeps : {false, true}) {
            const Histogram times = measure(sizes, two, sleeps, rounds);
            const std::string name = sleeps ? "sleeping" : "polling";
            all[name + "_p50_us"] = times.percentile(0.5) / 1000;
            all[name + "_p99_us"] = times.percentile(0.99) / 1000;
        }
    }
    return document;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Sizes sizes{129, 70};  // an eager WRITE of 8 B with a short notification, and its answer
    unsigned rounds = 100'000;
    CLI::App app{
        "A message over loopback TCP and its answer, between two processes that poll, or sleep; over one "
        "connection, or each over one of its own."};
    app.add_option("--there", sizes.there, "Bytes of the message")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--back", sizes.back, "Bytes of the answer")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--rounds", rounds, "Of either kind")
        ->check(CLI::Range(10, 100'000'000))
        ->capture_default_str();
    CLI11_PARSE(app, count, words);
    try {
        std::puts(railyard::run(sizes, rounds).dump().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "socket-round-trip: %s\n", error.what());
        return 1;
    }
    return 0;
}
