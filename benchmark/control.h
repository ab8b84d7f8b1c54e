// The conversation between the two sides: one request, one answer, as CBOR over the host's message channel.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>

#include "host/metadata_exchange.h"

namespace railyard::bench {

using Message = nlohmann::json;

/// One thread at a time. Throws PeerGone, and Failure for a peer that is silent or sends what is no message.
class Control {
  public:
    explicit Control(host::Channel channel) : channel_(std::move(channel)) {}

    void send(const Message& message);
    [[nodiscard]] Message receive(std::chrono::milliseconds limit);
    /// Sends and waits for the answer; an answer with "error" is thrown as Failure.
    Message call(const Message& message, std::chrono::milliseconds limit);

    /// To poll() for what comes.
    [[nodiscard]] int descriptor() const noexcept { return channel_.descriptor(); }

  private:
    host::Channel channel_;
};

}  // namespace railyard::bench
