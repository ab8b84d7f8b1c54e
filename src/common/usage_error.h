// What is wrong with a command line.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace railyard {

/// The text names the option and what may be given.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What `text` names. Throws UsageError.
template <class T>
T choose(const char* option, const std::string& text,
         std::initializer_list<std::pair<const char*, T>> choices) {
    std::string allowed;
    for (const auto& [name, value] : choices) {
        if (text == name) return value;
        if (!allowed.empty()) allowed += ", ";
        allowed += name;
    }
    throw UsageError(std::string(option) + ": '" + text + "' is none of " + allowed);
}

/// What CLI11 says of an option's value, as our tools say it.
[[nodiscard]] inline std::string in_our_words(std::string text) {
    const std::size_t missing = text.find(": 1 required ");
    if (missing != std::string::npos && text.ends_with(" missing"))
        return text.substr(0, missing) + " needs a value";
    const std::size_t again = text.find(": At Most 1 required but received ");
    if (again != std::string::npos)
        return text.substr(0, again) + " is given" + text.substr(text.rfind(' ')) + " times, and counts once";
    // Bounds of a range as printf's %f has them.
    for (std::size_t dot = text.find('.'); dot != std::string::npos; dot = text.find('.', dot + 1)) {
        const std::size_t end = std::min(text.find_first_not_of("0123456789", dot + 1), text.size());
        if (end != dot + 7) continue;
        const std::size_t last = text.find_last_not_of('0', end - 1);
        text.erase(last == dot ? dot : last + 1, end - (last == dot ? dot : last + 1));
    }
    return text;
}

}  // namespace railyard
