// CBOR messages over the channel.
#include "control.h"

#include <string>
#include <vector>

#include "common/status.h"
#include "failure.h"

namespace railyard::bench {

void Control::send(const Message& message) {
    std::string bytes;
    Message::to_cbor(message, bytes);
    try {
        channel_.send(bytes);
    } catch (const Error& error) {
        throw PeerGone(std::string("the other side is gone: ") + error.what());
    }
}

Message Control::receive(std::chrono::milliseconds limit) {
    std::string bytes;
    try {
        bytes = channel_.receive(limit);
    } catch (const Error& error) {
        if (error.status() == Status::canceled) {
            throw Failure("the other side did not answer within " + std::to_string(limit.count()) + " ms");
        }
        throw PeerGone(std::string("the other side is gone: ") + error.what());
    }
    Message message = Message::from_cbor(bytes, true, false);
    if (!message.is_object())
        throw Failure("the other side sent something that is no railyard-bench message");
    return message;
}

Message Control::call(const Message& message, std::chrono::milliseconds limit) {
    send(message);
    Message answer = receive(limit);
    if (answer.contains("error")) throw Failure("target: " + answer.at("error").get<std::string>());
    return answer;
}

}  // namespace railyard::bench
