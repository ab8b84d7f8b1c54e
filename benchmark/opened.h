// What an agent's engine has opened, as what it hands to its peers tells.
#pragma once

#include <string>
#include <string_view>

namespace railyard::bench {

/// Of another plugin than RAILYARD nothing is known.
struct Opened {
    std::string provider;  ///< empty: not known
    unsigned rails = 0;    ///< 0: not known
};

/// Of what host::Agent::metadata() returned. Throws Error{mismatch} for bytes that are none of it.
[[nodiscard]] Opened opened_by(std::string_view agent_metadata);

/// ", 1 rail" for a heading; empty where that is not known.
[[nodiscard]] std::string rails_text(const Opened& opened);

}  // namespace railyard::bench
