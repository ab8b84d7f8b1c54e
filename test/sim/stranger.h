// Rails without an engine, which say to an engine whatever a test wants.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "engine/introduction.h"
#include "engine/notification.h"
#include "engine_pair.h"
#include "manager/rail_manager.h"
#include "patience.h"

namespace railyard::test {

inline Params parse_params(const ParamMap& map) {
    return Params::parse(map, [](const char*) -> const char* { return nullptr; });
}

/// Pairs as a HELLO names them whose sender has no other endpoint than its rails'.
inline std::vector<IntroducedPair> introduced(const std::vector<RailPair>& pairs) {
    std::vector<IntroducedPair> result;
    for (const RailPair pair : pairs)
        result.push_back({pair, 1, ""});
    return result;
}

/// Bare rails of `fabric`, with a place for what arrives on them, signed with `secret` where there is one.
struct BareRails {
    explicit BareRails(const Fabric& fabric, ParamMap extra = {}, std::string_view secret = {})
        : heard_auth(secret) {
        extra.merge(fabric_params(fabric));
        rails = std::make_shared<RailManager>(parse_params(extra), false, inbox);
    }
    void progress() const {
        for (std::size_t i = 0; i < rails->size(); ++i)
            rails->rail(i).progress();
    }
    const MessageAuth heard_auth;
    NotificationInbox inbox{{}, 0, &heard_auth};
    std::shared_ptr<RailManager> rails;
};

class Stranger : public BareRails {
  public:
    /// Signs what it says with one secret, and would understand answers that are signed with the other.
    Stranger(Engine& victim, const Fabric& fabric, std::string_view says = {}, std::string_view hears = {})
        : BareRails(fabric, {}, hears),
          victim_(victim),
          auth_(says),
          victim_nonce_(decode_connection(victim.connection_info()).nonce),
          address_(rails->rail(0).insert_peer(decode_connection(victim.connection_info()).rails.front())) {}

    [[nodiscard]] ConnectionInfo info() const {
        return {"mallory", nonce, rails->provider(), rails->addresses()};
    }
    [[nodiscard]] std::string hello(const std::vector<RailPair>& pairs = {{0, 0}}) const {
        return encode(Introduction{info(), introduced(pairs)});
    }

    /// A control message with this header, and its end.
    void say(MessageKind kind, const std::string& agent, std::uint64_t instance, std::string text) {
        struct Said : OutNotification {
            bool over = false;
        } said;
        said.kind = kind;
        said.message = std::move(text);
        said.done = [](OutMessage& out, Status) noexcept {
            static_cast<Said&>(static_cast<OutNotification&>(out)).over = true;
        };
        said.start(agent, instance, ++messages_, address_, victim_nonce_, &auth_);
        rails->rail(0).send(said);
        ASSERT_TRUE(until([&] { return said.over; }));
    }

    /// The engine introduces itself before it writes, and before it asks; a NIC that knows it is all that
    /// takes.
    void acknowledge(const Letter& hello) {
        const Introduction introduction = decode_introduction(hello.text);
        for (const IntroducedPair& from : introduction.pairs)
            rails->rail(from.pair.remote).admit_sender(from.sender);
        say(MessageKind::hello_ack, "mallory", nonce,
            encode_acknowledgement(hello.nonce, introduction.pairs));
    }

    /// What the engine has answered so far, this class's own HELLO left out: sends one, with a pair that
    /// nobody else should name, and waits for its answer, which comes after those to everything before.
    std::vector<Acknowledgement> answers() {
        const std::vector<IntroducedPair> mark = introduced({{1, 0}});
        say(MessageKind::hello, "mallory", nonce, hello({{1, 0}}));
        std::vector<Acknowledgement> others;
        bool marked = false;
        EXPECT_TRUE(until([&] {
            Letters letters;
            inbox.take_letters(letters);
            for (const Letter& letter : letters) {
                EXPECT_EQ(letter.kind, MessageKind::hello_ack);
                Acknowledgement answer = decode_acknowledgement(letter.text);
                if (answer.pairs == mark) {
                    marked = answer.introduced_nonce == nonce;
                } else {
                    others.push_back(std::move(answer));
                }
            }
            return marked;
        })) << "a proper HELLO is not answered";
        return others;
    }

    bool until(const std::function<bool()>& over) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        for (Patience loop; !over(); loop.turn()) {
            if (std::chrono::steady_clock::now() > end) return false;
            progress();
            victim_.progress();
        }
        return true;
    }

    std::uint64_t nonce = 0x6666;

  private:
    Engine& victim_;
    const MessageAuth auth_;
    std::uint64_t victim_nonce_;
    PeerAddress address_;
    std::uint64_t messages_ = 0;
};

}  // namespace railyard::test
