#include "host/metadata_exchange.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "common/status.h"

namespace railyard::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 4> frame_magic{'R', 'Y', 'X', '1'};
constexpr std::size_t frame_header_size = frame_magic.size() + sizeof(std::uint64_t);
constexpr auto connect_pause = std::chrono::milliseconds(20);  ///< between two tries while nobody listens
constexpr auto resolve_pause = std::chrono::milliseconds(250);
/// What one of several addresses may take to answer; twice as long in each round.
constexpr auto first_patience = std::chrono::milliseconds(500);

[[noreturn]] void fail(const std::string& what, int error) {
    throw Error(Status::backend, what + ": " + std::strerror(error));
}

/// Waits until the descriptor is ready for `events`; throws canceled at the deadline.
void wait_ready(int descriptor, short events, Clock::time_point deadline, const char* what) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd entry{descriptor, events, 0};
        const int limit = static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
        const int ready = poll(&entry, 1, limit);
        if (ready > 0) return;
        if (ready == 0 && Clock::now() >= deadline)
            throw Error(Status::canceled, std::string(what) + ": timed out");
        if (ready < 0 && errno != EINTR) fail(what, errno);
    }
}

struct AddressesDeleter {
    void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

/// 0, or what getaddrinfo says instead.
int look_up(const std::string& host, std::uint16_t port, int flags, Addresses& addresses) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const int code =
        getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (code == 0) addresses.reset(list);
    return code;
}

[[noreturn]] void cannot_resolve(const std::string& host, int code) {
    throw Error(Status::not_found, "cannot resolve '" + host + "': " + gai_strerror(code));
}

Addresses resolve(const std::string& host, std::uint16_t port, int flags) {
    Addresses addresses;
    if (const int code = look_up(host, port, flags, addresses)) cannot_resolve(host, code);
    return addresses;
}

/// Again as long as there is no such name, or nobody to ask: that of a process which starts as we do, under
/// Kubernetes say, comes into being with it.
Addresses resolve_until(const std::string& host, std::uint16_t port, Clock::time_point deadline) {
    Addresses addresses;
    for (;;) {
        const int code = look_up(host, port, 0, addresses);
        if (code == 0) return addresses;
        const bool may_come = code == EAI_AGAIN || code == EAI_NONAME;
        if (!may_come || Clock::now() >= deadline) cannot_resolve(host, code);
        std::this_thread::sleep_for(std::min<Clock::duration>(resolve_pause, deadline - Clock::now()));
    }
}

int open_socket(const addrinfo& address) {
    return socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
}

/// It is connected to itself: nobody listens, and the kernel has chosen the port that it was to reach as its
/// own, as it may on one host.
bool is_own(int descriptor) {
    sockaddr_storage ours{}, theirs{};
    socklen_t size = sizeof ours, other_size = sizeof theirs;
    return getsockname(descriptor, reinterpret_cast<sockaddr*>(&ours), &size) == 0 &&
           getpeername(descriptor, reinterpret_cast<sockaddr*>(&theirs), &other_size) == 0 &&
           size == other_size && std::memcmp(&ours, &theirs, size) == 0;
}

/// One try at one address: 0, or the errno that it ended with.
int try_connect(int descriptor, const addrinfo& address, Clock::time_point deadline) {
    if (connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    try {
        wait_ready(descriptor, POLLOUT, deadline, "connect");
    } catch (const Error& late) {
        if (late.status() != Status::canceled) throw;
        return ETIMEDOUT;  // the caller says where to
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
}

/// When to turn to the next address: those from `address` on share what is left of the time.
Clock::time_point end_of_try(const addrinfo* address, Clock::duration patience, Clock::time_point deadline) {
    int addresses = 0;
    for (; address != nullptr; address = address->ai_next)
        ++addresses;
    const auto now = Clock::now();
    return now + std::min(patience, (deadline - now) / addresses);
}

void send_all(int descriptor, std::string_view bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            wait_ready(descriptor, POLLOUT, deadline, "send");
        } else if (errno == EPIPE || errno == ECONNRESET) {
            throw Error(Status::remote_disconnect, "the peer has closed the metadata connection");
        } else if (errno != EINTR) {
            fail("send", errno);
        }
    }
}

void receive_all(int descriptor, char* out, std::size_t size, Clock::time_point deadline) {
    while (size > 0) {
        const ssize_t got = recv(descriptor, out, size, 0);
        if (got > 0) {
            out += got;
            size -= static_cast<std::size_t>(got);
        } else if (got == 0 || errno == ECONNRESET) {
            throw Error(Status::remote_disconnect, "the peer has closed the metadata connection");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            wait_ready(descriptor, POLLIN, deadline, "receive");
        } else if (errno != EINTR) {
            fail("receive", errno);
        }
    }
}

void close_if_open(int& descriptor) noexcept {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
}

}  // namespace

Channel::Channel(int descriptor) noexcept : descriptor_(descriptor) {
    // Fails on a socket that is not TCP, where it has no meaning either. A silent peer's machine is asked for
    // after a minute, and every ten seconds from then on; it is gone after six questions.
    const int on = 1, minute = 60, pause = 10, questions = 6;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &minute, sizeof minute);
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
    const int flags = fcntl(descriptor_, F_GETFL);
    if (flags >= 0) fcntl(descriptor_, F_SETFL, flags | O_NONBLOCK);
}

Channel::Channel(Channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
    if (this == &other) return *this;
    close_if_open(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
}

Channel::~Channel() {
    close_if_open(descriptor_);
}

Channel Channel::connect(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    const Addresses addresses = resolve_until(host, port, deadline);
    const bool several = addresses->ai_next != nullptr;
    Clock::duration patience = several ? first_patience : timeout;
    int error = 0;
    do {
        for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
            const int descriptor = open_socket(*address);
            error = errno;
            if (descriptor < 0 && error == EAFNOSUPPORT) continue;  // no IPv6 here, say
            if (descriptor < 0) fail("socket", error);
            Channel channel(descriptor);
            error = try_connect(descriptor, *address, end_of_try(address, patience, deadline));
            if (error == 0 && is_own(descriptor)) error = ECONNREFUSED;
            if (error == 0) return channel;
        }
        patience *= 2;
        std::this_thread::sleep_for(std::min<Clock::duration>(connect_pause, deadline - Clock::now()));
    } while (Clock::now() < deadline);
    throw Error(Status::canceled, "no connection to " + host + " port " + std::to_string(port) + " within " +
                                      std::to_string(timeout.count()) + " ms: " + std::strerror(error));
}

void Channel::send(std::string_view message, std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    std::array<char, frame_header_size> header{};
    const std::uint64_t size = message.size();
    std::memcpy(header.data(), frame_magic.data(), frame_magic.size());
    std::memcpy(header.data() + frame_magic.size(), &size, sizeof size);
    send_all(descriptor_, {header.data(), header.size()}, deadline);
    send_all(descriptor_, message, deadline);
}

std::string Channel::receive(std::chrono::milliseconds timeout, std::size_t max_size) {
    const auto deadline = Clock::now() + timeout;
    std::array<char, frame_header_size> header{};
    receive_all(descriptor_, header.data(), header.size(), deadline);
    if (!std::equal(frame_magic.begin(), frame_magic.end(), header.begin()))
        throw Error(Status::mismatch, "the peer does not speak this host's metadata protocol");
    std::uint64_t size = 0;
    std::memcpy(&size, header.data() + frame_magic.size(), sizeof size);
    if (size > max_size)
        throw Error(Status::mismatch, "the peer announces a message of " + std::to_string(size) +
                                          " bytes, the limit is " + std::to_string(max_size));
    std::string message(size, '\0');
    receive_all(descriptor_, message.data(), message.size(), deadline);
    return message;
}

Listener::Listener(const std::string& host, std::uint16_t port) {
    const Addresses addresses = resolve(host, port, AI_PASSIVE);
    int error = EADDRNOTAVAIL;
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
        descriptor_ = open_socket(*address);
        const int on = 1;
        if (descriptor_ >= 0) setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (descriptor_ >= 0 && bind(descriptor_, address->ai_addr, address->ai_addrlen) == 0 &&
            listen(descriptor_, SOMAXCONN) == 0)  // a whole group may come before anybody looks
            break;
        error = errno;
        close_if_open(descriptor_);
    }
    if (descriptor_ < 0)
        fail("cannot listen on " + (host.empty() ? "any address" : "'" + host + "'") + " at port " +
                 std::to_string(port) +
                 ", which has to be an address of this machine and a port that is free",
             error);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
        error = errno;
        close_if_open(descriptor_);
        fail("getsockname", error);
    }
    port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

Listener& Listener::operator=(Listener&& other) noexcept {
    if (this == &other) return *this;
    close_if_open(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    port_ = other.port_;
    return *this;
}

Listener::~Listener() {
    close_if_open(descriptor_);
}

std::uint16_t Listener::port() const noexcept {
    return port_;
}

Channel Listener::accept(std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
        const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0) return Channel(descriptor);
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            wait_ready(descriptor_, POLLIN, deadline, "accept");
        else if (errno != EINTR && errno != ECONNABORTED)
            fail("accept", errno);
    }
}

}  // namespace railyard::host
