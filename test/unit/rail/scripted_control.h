// A control channel over an endpoint whose provider answers as a test says.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rail/control_channel.h"
#include "rail/rail.h"

namespace railyard::scripted_control {

/// What the scripted provider answers and has seen. One at a time.
struct Script {
    struct Sent {
        void* context;
        std::string text;
        fi_addr_t to;
    };
    std::deque<ssize_t> sends;              // answers to the next posts
    std::map<fi_addr_t, ssize_t> sends_to;  // answers by destination, when `sends` is used up
    std::deque<ssize_t> receives;           // answers to the next receive buffers
    std::vector<void*> receive_memory;      // of every receive buffer offered
    ssize_t receives_otherwise = 0;
    std::vector<Sent> sent;                    // with the provider
    std::vector<void*> buffers;                // receive contexts with the provider
    std::size_t posts = 0, receive_posts = 0;  // refused ones too
};
inline Script script;

inline ssize_t next_of(std::deque<ssize_t>& answers, ssize_t otherwise) {
    if (answers.empty()) return otherwise;
    const ssize_t answer = answers.front();
    answers.pop_front();
    return answer;
}

inline ssize_t scripted_send(fid_ep*, const void* buffer, std::size_t length, void*, fi_addr_t to,
                             void* context) {
    ++script.posts;
    const auto usual = script.sends_to.find(to);
    const ssize_t answer = next_of(script.sends, usual == script.sends_to.end() ? 0 : usual->second);
    if (answer == 0) script.sent.push_back({context, {static_cast<const char*>(buffer), length}, to});
    return answer;
}

inline ssize_t scripted_sendmsg(fid_ep* endpoint, const fi_msg* message, std::uint64_t) {
    return scripted_send(endpoint, message->msg_iov->iov_base, message->msg_iov->iov_len, nullptr,
                         message->addr, message->context);
}

inline ssize_t scripted_recv(fid_ep*, void* memory, std::size_t, void*, fi_addr_t, void* context) {
    ++script.receive_posts;
    script.receive_memory.push_back(memory);
    const ssize_t answer = next_of(script.receives, script.receives_otherwise);
    if (answer == 0) script.buffers.push_back(context);
    return answer;
}

/// `count` fragments "name0", "name1"...
struct Message : OutMessage {
    Message(std::string text, PeerAddress to, int fragments = 1) : name(std::move(text)), count(fragments) {
        destination = to;
        fill = [](OutMessage& message, std::span<std::byte> buffer) noexcept {
            auto& self = static_cast<Message&>(message);
            const std::string fragment = self.name + std::to_string(self.position);
            std::memcpy(buffer.data(), fragment.data(), fragment.size());
            return fragment.size();
        };
        advance = [](OutMessage& message) noexcept {
            auto& self = static_cast<Message&>(message);
            return ++self.position < self.count;
        };
        done = [](OutMessage& message, Status outcome) noexcept {
            auto& self = static_cast<Message&>(message);
            ++self.ends;
            self.result = outcome;
            self.next = nullptr;
        };
    }
    std::string name;
    int count;
    int position = 0;
    int ends = 0;
    Status result = Status::in_progress;
};

struct CountingSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override {
        if (refusals > 0) return --refusals, false;
        ++arrived;
        return true;
    }
    int arrived = 0;
    int refusals = 0;  ///< of those that come next
};

class ControlChannelTest : public testing::Test {
  protected:
    static constexpr std::uint64_t give_up_ns = 60'000'000;
    /// Of tcp, where the channel takes answers at its sender, too.
    static constexpr std::size_t receive_slots = ControlChannel::receive_slots + AnswerChannel::receive_slots;
    static constexpr auto patience = std::chrono::seconds(20);

    ControlChannelTest()
        : domain_(std::make_shared<const fabric::Device>(
                      std::move(fabric::discover("tcp", fabric::parse_device_filter("lo")).front())),
                  "rail"),
          queue_(domain_, 64, false),
          addresses_(domain_),
          endpoint_(domain_, queue_, addresses_),
          real_(handle()->msg),
          scripted_(*real_) {
        script = {};
        scripted_.send = scripted_send;
        scripted_.sendmsg = scripted_sendmsg;
        scripted_.recv = scripted_recv;
        handle()->msg = &scripted_;
    }
    ~ControlChannelTest() override { handle()->msg = real_; }

    fid_ep* handle() { return reinterpret_cast<fid_ep*>(endpoint_.handle()); }

    std::unique_ptr<ControlChannel> open() {
        auto channel = std::make_unique<ControlChannel>(domain_, endpoint_, sink_, give_up_ns);
        channel->send_from(&endpoint_);
        return channel;
    }
    static fabric::Completion no_buffer() { return {Status::backend, 0, FI_ENORX, 10, true}; }
    /// Ends everything that is with the provider.
    static void complete_sent(const fabric::Completion& outcome) {
        std::vector<Script::Sent> all;
        all.swap(script.sent);
        for (const Script::Sent& each : all)
            static_cast<fabric::OpContext*>(each.context)->complete_with(outcome);
    }
    static void send(ControlChannel& channel, Message& message) {
        channel.queue(&message);
        channel.post_pending();
    }
    template <class Condition>
    static bool pass_until(ControlChannel& channel, Condition over) {
        const auto limit = std::chrono::steady_clock::now() + patience;
        while (!over()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            channel.post_pending();
        }
        return true;
    }

    CountingSink sink_;
    fabric::Domain domain_;
    fabric::CompletionQueue queue_;
    fabric::AddressVector addresses_;
    fabric::Endpoint endpoint_;
    fi_ops_msg* real_;
    fi_ops_msg scripted_;
};

}  // namespace railyard::scripted_control
