// What is wrong with a command line.
#pragma once

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

}  // namespace railyard
