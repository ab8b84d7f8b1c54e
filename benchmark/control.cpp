// CBOR messages over the channel.
#include "control.h"

#include <cstdio>
#include <string>
#include <vector>

#include "common/status.h"
#include "failure.h"

namespace railyard::bench {

namespace {

constexpr const char* no_message = " sent something that is no railyard-bench message";

}  // namespace

std::string seconds_text(std::chrono::milliseconds time) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g s", static_cast<double>(time.count()) / 1000);
    return text;
}

void Control::send(const Message& message) {
    std::string bytes;
    Message::to_cbor(message, bytes);
    try {
        channel_.send(bytes);
    } catch (const Error& error) {
        throw PeerGone(other_ + " is gone: " + error.what());
    }
}

Message Control::receive(std::chrono::milliseconds limit, std::size_t longest) {
    std::string bytes;
    try {
        bytes = channel_.receive(limit, longest);
    } catch (const Error& error) {
        if (error.status() == Status::canceled) {
            throw PeerSilent(other_ + " did not answer within " + seconds_text(limit) +
                             ": see that a railyard-bench runs there, and no other program has the port; "
                             "--timeout sets the limit");
        }
        if (error.status() == Status::mismatch) throw Failure(other_ + no_message + ": " + error.what());
        throw PeerGone(other_ + " is gone: " + error.what());
    }
    Message message = Message::from_cbor(bytes, true, false);
    if (!message.is_object()) throw Failure(other_ + no_message);
    return message;
}

Message Control::call(const Message& message, std::chrono::milliseconds limit) {
    send(message);
    Message answer = receive(limit);
    if (answer.contains("error")) throw Failure("target: " + answer.at("error").get<std::string>());
    return answer;
}

}  // namespace railyard::bench
