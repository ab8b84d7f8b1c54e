#include "group/socket_rendezvous.h"

#include <poll.h>

#include <algorithm>

#include "common/status.h"
#include "failure.h"
#include "host_port.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

/// The coordinator's own limit comes first, because it knows who is missing. That of a far one that says
/// nothing at all comes soon after it.
std::chrono::milliseconds patience_beyond(std::chrono::milliseconds limit) {
    return std::clamp<std::chrono::milliseconds>(limit / 2, 500ms, 5s);
}

/// Nothing where another process listens there, or the address is another machine's.
std::optional<host::Listener> try_listen(const RendezvousAddress& address) {
    try {
        return host::Listener(address.host, address.port);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

SocketRendezvous::SocketRendezvous(host::Listener listener, unsigned world, std::chrono::milliseconds timeout)
    : coordinator_(std::make_unique<Coordinator>(std::move(listener), world, timeout)),
      control_(coordinator_->own_channel()),
      who_("rank 0, which coordinates the group,") {
    await_start(timeout);
}

SocketRendezvous::SocketRendezvous(Control control, unsigned world, std::optional<unsigned> rank,
                                   std::chrono::milliseconds timeout, const std::string& place)
    : control_(std::move(control)),
      who_("rank 0, which coordinates the group" + (place.empty() ? "," : " at " + place + ",")) {
    control_->send(hello_message(world, rank));
    await_start(timeout);
}

void SocketRendezvous::await_start(std::chrono::milliseconds timeout) {
    control_->call_other(who_);
    const Message start = receive(timeout);
    rank_ = start.at("rank").get<unsigned>();
    members_ = start.at("members").get<std::vector<std::string>>();
}

Message SocketRendezvous::receive(std::chrono::milliseconds limit) {
    Message message;
    try {
        message = control_->receive(limit + patience_beyond(limit));
    } catch (const PeerGone&) {
        throw Failure(who_ + " has gone");
    } catch (const PeerSilent&) {
        throw Failure(
            who_ +
            " is silent: see that a railyard-bench with the same --rendezvous has that port, and no "
            "other program; --timeout sets the limit");
    } catch (const Failure& failure) {
        if (!members_.empty()) throw;
        throw Failure(std::string(failure.what()) + "; see that no other program has that port");
    }
    if (message.contains("error")) throw Failure(message.at("error").get<std::string>());
    return message;
}

std::vector<std::string> SocketRendezvous::exchange(const std::string& phase, const std::string& value,
                                                    std::chrono::milliseconds limit) {
    try {
        control_->send({{"phase", phase},
                        {"limit_ms", limit.count()},
                        {"value", Message::binary({value.begin(), value.end()})}});
    } catch (const Failure&) {
        check();  // it may have said why
        throw Failure(who_ + " has gone");
    }
    std::vector<std::string> values;
    for (bool more = true; more;) {
        const Message part = receive(limit);
        for (const Message& each : part.at("values")) {
            const auto& bytes = each.get_binary();
            values.emplace_back(bytes.begin(), bytes.end());
        }
        more = part.at("more").get<bool>();
    }
    return values;
}

void SocketRendezvous::check() {
    pollfd entry{control_->descriptor(), POLLIN, 0};
    if (poll(&entry, 1, 0) <= 0) return;
    static_cast<void>(receive(0ms));
    throw Failure(who_ + " speaks out of turn");
}

void SocketRendezvous::fail(const std::string& reason) noexcept {
    try {
        control_->send({{"fail", reason}});
    } catch (const std::exception&) {  // then it has gone itself
    }
}

void SocketRendezvous::leave() noexcept {
    try {
        control_->send({{"leave", true}});
    } catch (const std::exception&) {  // likewise
    }
}

std::unique_ptr<Rendezvous> meet_at_socket(const GroupOptions& options, std::chrono::milliseconds timeout) {
    const RendezvousAddress& address = *options.rendezvous;
    if (options.rank == 0u) {
        return std::make_unique<SocketRendezvous>(host::Listener(address.host, address.port), options.world,
                                                  timeout);
    }
    if (!options.rank) {
        if (auto listener = try_listen(address))
            return std::make_unique<SocketRendezvous>(std::move(*listener), options.world, timeout);
    }
    Control control(host::Channel::connect(address.host, address.port, timeout));
    return std::make_unique<SocketRendezvous>(std::move(control), options.world, options.rank, timeout,
                                              join_host_port(address.host, address.port));
}

}  // namespace railyard::bench
