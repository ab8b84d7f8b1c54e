#include "messages.h"

#include <functional>
#include <span>

#include "memory.h"

namespace railyard::fault {
namespace {

/// FNV-1a: std::hash differs between libraries.
std::uint64_t key_of(std::string_view name) noexcept {
    std::uint64_t key = 0xcbf29ce484222325ULL;
    for (const char letter : name)
        key = (key ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    return key;
}

}  // namespace

std::string agent_of(int engine) {
    return "engine" + std::to_string(engine);
}

std::string message_name(const Message& message, int id) {
    std::string name = std::to_string(message.from) + ">" + std::to_string(message.to);
    if (message.transfer >= 0) {
        name += " transfer " + std::to_string(message.transfer) + " round " + std::to_string(message.round);
    } else {
        name += " message " + std::to_string(id);
    }
    return name + '#';
}

std::string message_text(const std::string& name, std::size_t length) {
    std::string text = name;
    if (length <= text.size()) return text;
    text.resize(length);
    fill_pattern({reinterpret_cast<std::uint8_t*>(text.data()) + name.size(), length - name.size()},
                 key_of(name));
    return text;
}

std::string name_in(std::string_view text) {
    const std::size_t end = text.find('#');
    return end == std::string_view::npos ? std::string() : std::string(text.substr(0, end + 1));
}

}  // namespace railyard::fault
