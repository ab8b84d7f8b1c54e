// An inbox and what comes into it from a writer of early notifications.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "engine/early_window.h"
#include "engine/notification.h"

namespace railyard {

namespace early_inbox {

using Bytes = std::vector<std::byte>;
using Texts = std::vector<std::string>;

/// What comes into an inbox from one writer, as the wire has it.
class EarlyNotificationTest : public testing::Test {
  protected:
    EarlyNotificationTest() : number_(inbox_.number(nonce).number) { log::set_level(log::Level::off); }
    ~EarlyNotificationTest() override { log::set_level(log::Level::warn); }

    [[nodiscard]] std::uint32_t mark(std::uint32_t sequence) const {
        return EarlyMark::of(number_, sequence);
    }
    std::vector<Bytes> cut(const std::string& text, std::uint32_t with, std::uint64_t id,
                           std::uint64_t from = nonce, std::uint8_t operations = 1) {
        OutNotification message;
        message.kind = operations == 1 ? MessageKind::notify_early : MessageKind::notify_early_several;
        message.marks = {with, operations};
        message.message = text;
        message.start(agent_, from, id, 0);
        std::vector<Bytes> out;
        for (bool more = true; more; more = message.advance(message)) {
            Bytes buffer(200);
            buffer.resize(message.fill(message, buffer));
            out.push_back(std::move(buffer));
        }
        return out;
    }
    void bring(const std::vector<Bytes>& fragments) {
        for (const Bytes& fragment : fragments)
            inbox_.on_control(fragment);
    }
    Texts taken() {
        std::vector<Notification> got;
        inbox_.take(got);
        Texts texts;
        for (const Notification& one : got) {
            EXPECT_EQ(one.agent, agent_);
            texts.push_back(one.message);
        }
        return texts;
    }

    static constexpr std::uint64_t nonce = 9;
    const std::string agent_ = "writer";
    NotificationInbox inbox_;
    const std::uint32_t number_;
};

}  // namespace early_inbox
}  // namespace railyard
