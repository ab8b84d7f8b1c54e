// The notifications of one run: which are to come, which have.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "windows.h"

namespace railyard::fault {

/// One notification. Its name is its first bytes, the rest follows from the name.
struct Message {
    int from = 0, to = 0;
    int transfer = -1, round = 0;  ///< -1: of no transfer
    std::size_t length = 0;
    Tick sent = 0;
    bool due = false;      ///< it must come: its transfer ended with SUCCESS, or send_notification returned
    bool excused = false;  ///< whoever was to get it is gone
    int seen = 0;
};

[[nodiscard]] std::string agent_of(int engine);
[[nodiscard]] std::string message_name(const Message& message, int id);
/// The whole text of a message of this name, at least `length` bytes.
[[nodiscard]] std::string message_text(const std::string& name, std::size_t length);
/// The name in a text; empty where there is none.
[[nodiscard]] std::string name_in(std::string_view text);

using Messages = std::map<std::string, Message>;

}  // namespace railyard::fault
