// The conversation between the two sides: one request, one answer, as CBOR over the host's message channel.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "host/metadata_exchange.h"

namespace railyard::bench {

using Message = nlohmann::json;

/// "30 s", "0.5 s".
[[nodiscard]] std::string seconds_text(std::chrono::milliseconds time);

/// One thread at a time. Throws PeerGone, PeerSilent, and Failure for a peer that sends what is no message,
/// or one that is too long.
class Control {
  public:
    /// `other`: how messages call the other side, with its address where it has one.
    explicit Control(host::Channel channel, std::string other = "the other side")
        : channel_(std::move(channel)), other_(std::move(other)) {}

    void call_other(std::string name) { other_ = std::move(name); }

    void send(const Message& message);
    /// A longer message than `longest` bytes is none: who reads it, and is not known, must not be kept busy.
    [[nodiscard]] Message receive(std::chrono::milliseconds limit,
                                  std::size_t longest = host::default_max_message);
    /// Sends and waits for the answer; an answer with "error" is thrown as Failure.
    Message call(const Message& message, std::chrono::milliseconds limit);

    /// To poll() for what comes.
    [[nodiscard]] int descriptor() const noexcept { return channel_.descriptor(); }

  private:
    host::Channel channel_;
    std::string other_;
};

}  // namespace railyard::bench
