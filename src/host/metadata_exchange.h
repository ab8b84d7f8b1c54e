// Length-prefixed messages between two processes over one TCP socket: how two embedded hosts exchange
// metadata.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace railyard::host {

/// Upper bound of a message unless the receiver says otherwise.
inline constexpr std::size_t default_max_message = std::size_t{64} << 20;

/// One connected stream socket. Every call is bounded by its timeout and throws railyard::Error: canceled
/// when time runs out, remote_disconnect when the peer has closed, mismatch for a message that is not ours or
/// exceeds the limit, backend for a system error, as of a machine that has been gone for two minutes. After
/// an error the channel is of no more use. One thread at a time.
class Channel {
  public:
    /// Tries again until the peer listens or `timeout` has passed. `host` is a name, which may come into
    /// being meanwhile, or an address; not_found where there is no such name then. Of a name with several
    /// addresses each has its share of the time, so that one that does not answer keeps nobody from the
    /// others.
    static Channel connect(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);
    /// Takes over a connected stream socket (one end of a socketpair, say).
    explicit Channel(int descriptor) noexcept;
    Channel(Channel&& other) noexcept;
    Channel& operator=(Channel&& other) noexcept;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel();

    void send(std::string_view message, std::chrono::milliseconds timeout = std::chrono::seconds(30));
    /// The next whole message; refuses one longer than `max_size` bytes before it allocates anything for it.
    [[nodiscard]] std::string receive(std::chrono::milliseconds timeout,
                                      std::size_t max_size = default_max_message);

    /// To poll() for many of them; still the channel's.
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  private:
    int descriptor_ = -1;
};

/// A listening socket. One thread at a time.
class Listener {
  public:
    /// `host` empty: every interface; `port` 0: the kernel chooses one, see port().
    Listener(const std::string& host, std::uint16_t port);
    Listener(Listener&& other) noexcept;
    Listener& operator=(Listener&& other) noexcept;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener();

    [[nodiscard]] std::uint16_t port() const noexcept;
    /// As of Channel.
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    [[nodiscard]] Channel accept(std::chrono::milliseconds timeout);

  private:
    int descriptor_ = -1;
    std::uint16_t port_ = 0;
};

}  // namespace railyard::host
