#include "lobby.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/occasional.h"
#include "common/spoken.h"
#include "common/status.h"
#include "failure.h"
#include "host_port.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto patience = 2s;      ///< an initiator speaks as soon as it has connected
constexpr auto rest_limit = 1s;    ///< of what has begun to come
constexpr std::size_t seats = 16;  ///< strangers who keep others waiting, at most
constexpr std::size_t longest_greeting = 4096;

std::string address_of(const host::Channel& channel) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    if (getpeername(channel.descriptor(), general, &size) != 0 ||
        getnameinfo(general, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "somebody";
    return join_host_port(host.data(), static_cast<std::uint16_t>(std::stoul(port.data())));
}

std::chrono::milliseconds until(Clock::time_point end) {
    return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
}

class Lobby {
  public:
    Lobby(host::Listener& listener, std::chrono::milliseconds limit)
        : listener_(listener), end_(Clock::now() + limit) {}

    /// Nothing when the time is over.
    std::optional<Control> await() {
        do {
            wait();
            for (auto guest = guests_.begin(); guest != guests_.end();) {
                if (guest->ready && greets(*guest))
                    return Control(std::move(guest->channel), "the initiator");
                if (!guest->ready && Clock::now() >= guest->leaves) drop(*guest, "says nothing");
                guest = guest->dropped ? guests_.erase(guest) : std::next(guest);
            }
        } while (Clock::now() < end_);
        return std::nullopt;
    }

    [[nodiscard]] std::size_t dropped() const noexcept { return dropped_; }

  private:
    struct Guest {
        host::Channel channel;
        std::string who;
        Clock::time_point leaves;
        bool ready = false, dropped = false;
    };

    void wait() {
        std::vector<pollfd> entries;
        Clock::time_point next = end_;
        for (const Guest& guest : guests_) {
            entries.push_back({guest.channel.descriptor(), POLLIN, 0});
            next = std::min(next, guest.leaves);
        }
        const bool room = guests_.size() < seats;
        if (room) entries.push_back({listener_.descriptor(), POLLIN, 0});
        poll(entries.data(), entries.size(), static_cast<int>(until(next).count()));  // a signal: once more
        auto entry = entries.begin();
        for (Guest& guest : guests_)
            guest.ready = (entry++)->revents != 0;
        if (room && entry->revents != 0) admit();
    }

    void admit() {
        try {
            host::Channel channel = listener_.accept(0ms);
            std::string who = address_of(channel);
            guests_.push_back({std::move(channel), std::move(who), Clock::now() + patience});
        } catch (const Error& error) {
            if (error.status() != Status::canceled) throw;  // it has gone again
        }
    }

    bool greets(Guest& guest) {
        try {
            const std::string bytes = guest.channel.receive(
                std::min<std::chrono::milliseconds>(rest_limit, until(end_)), longest_greeting);
            if (is_greeting(Message::from_cbor(bytes, true, false))) {
                std::string answer;
                Message::to_cbor({{"ok", true}}, answer);
                guest.channel.send(answer);
                return true;
            }
            drop(guest, "is no initiator of this railyard-bench");
        } catch (const Error& error) {
            drop(guest, error.status() == Status::remote_disconnect ? "has hung up"
                        : error.status() == Status::canceled        ? "does not say all of it"
                                                                    : "is no railyard-bench");
        }
        return false;
    }

    static bool is_greeting(const Message& message) {
        return message.is_object() && message.contains("do") && message.at("do") == "hello";
    }

    void drop(Guest& guest, const char* why) {
        guest.dropped = true;
        if (!worth_a_line(++dropped_)) return;
        std::fprintf(stderr, "railyard-bench: target: %s %s: dropped, and waiting on%s\n", guest.who.c_str(),
                     why, dropped_ > 1 ? (" (" + std::to_string(dropped_) + " by now)").c_str() : "");
    }

    host::Listener& listener_;
    const Clock::time_point end_;
    std::list<Guest> guests_;
    std::size_t dropped_ = 0;
};

}  // namespace

Control await_initiator(host::Listener& listener, const std::string& place, std::chrono::milliseconds limit) {
    Lobby lobby(listener, limit);
    if (std::optional<Control> control = lobby.await()) return std::move(*control);
    throw Failure("target: no initiator has come to " + place + " within " + seconds_text(limit) +
                  (lobby.dropped() ? ", only " + counted(lobby.dropped(), "connection") + " of others" : "") +
                  ": start one with --role initiator and --peer of this address, and see that it leads "
                  "here; --timeout sets the limit");
}

}  // namespace railyard::bench
