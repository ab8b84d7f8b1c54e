// The options of a group of processes: who belongs to it, where they meet, and who moves data with whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "group/pattern.h"

namespace CLI {
class App;
}

namespace railyard::bench {

/// tcp://HOST:PORT, etcd://HOST:PORT/GROUP, or etcds:// for the same through TLS.
struct RendezvousAddress {
    enum class Kind { tcp, etcd };
    Kind kind = Kind::tcp;
    bool secure = false;  ///< etcd's only
    std::string host;
    std::uint16_t port = 0;
    std::string group;  ///< etcd's only

    [[nodiscard]] std::string text() const;
};

/// Throws UsageError, which says what was wrong and what is right.
[[nodiscard]] RendezvousAddress parse_rendezvous(const std::string& text);

struct GroupOptions {
    unsigned world = 0;            ///< processes; 0: no group, but two sides
    std::optional<unsigned> rank;  ///< else by the order of arrival
    GroupPattern pattern = GroupPattern::all_to_all;
    std::optional<RendezvousAddress> rendezvous;  ///< none: all of them are forked on this host
    bool per_process = false;                     ///< a row for each process, too
    std::optional<unsigned> die;  ///< fault injection for the tests: that rank kills itself while it is timed
    std::optional<unsigned> die_closing;  ///< likewise, while it closes the plugin
};

/// Values as the command line has them.
struct GroupTexts {
    std::string rendezvous;
    std::string pattern;
};

void declare_group(CLI::App& app, GroupOptions& options, GroupTexts& texts);
/// Throws UsageError.
void take_group(GroupOptions& options, const GroupTexts& texts);

}  // namespace railyard::bench
