#include "group/group_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "common/usage_error.h"
#include "host_port.h"

namespace railyard::bench {

namespace {

constexpr std::size_t longest_group = 128;

bool names_a_group(std::string_view text) {
    const auto allowed = [](unsigned char c) {
        return (c < 128 && std::isalnum(c) != 0) || c == '-' || c == '_' || c == '.';
    };
    return !text.empty() && text.size() <= longest_group && std::all_of(text.begin(), text.end(), allowed);
}

/// Cuts `prefix` off; false where the text does not begin with it.
bool take_prefix(std::string& text, std::string_view prefix) {
    if (text.compare(0, prefix.size(), prefix) != 0) return false;
    text.erase(0, prefix.size());
    return true;
}

}  // namespace

std::string RendezvousAddress::text() const {
    const std::string place = join_host_port(host, port);
    if (kind == Kind::tcp) return "tcp://" + place;
    return (secure ? "etcds://" : "etcd://") + place + "/" + group;
}

RendezvousAddress parse_rendezvous(const std::string& text) {
    const auto refuse = [&](const std::string& why) -> UsageError {
        return UsageError(
            "--rendezvous: '" + text + "': " + why +
            "; want tcp://HOST:PORT, etcd://HOST:PORT/GROUP or (with TLS) etcds://HOST:PORT/GROUP");
    };
    RendezvousAddress address;
    std::string rest = text;
    address.secure = take_prefix(rest, "etcds://");
    if (address.secure || take_prefix(rest, "etcd://")) {
        address.kind = RendezvousAddress::Kind::etcd;
        const std::size_t slash = rest.find('/');
        if (slash == std::string::npos) throw refuse("no GROUP");
        address.group = rest.substr(slash + 1);
        rest.erase(slash);
        if (!names_a_group(address.group)) {
            throw refuse("GROUP is up to " + std::to_string(longest_group) +
                         " letters, digits, dots, dashes and underscores");
        }
    } else if (!take_prefix(rest, "tcp://")) {
        throw refuse("unknown kind of rendezvous");
    }
    const auto place = split_host_port(rest);
    if (!place || place->host.empty() || place->port == 0) throw refuse("'" + rest + "' is not HOST:PORT");
    address.host = place->host;
    address.port = place->port;
    return address;
}

void declare_group(CLI::App& app, GroupOptions& options, GroupTexts& texts) {
    app.add_option("--world", options.world,
                   "Processes of a group, which all run the same points; forked on this host without "
                   "--rendezvous")
        ->check(CLI::Range(2u, 4096u));
    app.add_option(
        "--rendezvous", texts.rendezvous,
        "Where the processes of a group meet: tcp://HOST:PORT, where rank 0 or whoever comes "
        "first listens, or etcd://HOST:PORT/GROUP; with etcds:// by TLS, as ETCDCTL_CACERT, ETCDCTL_CERT, "
        "ETCDCTL_KEY and ETCDCTL_USER say");
    app.add_option("--rank", options.rank,
                   "Number of this process in its group, from 0 [by the order of arrival]");
    app.add_option("--pattern", texts.pattern,
                   "Who moves data with whom: pairwise, all-to-all, many-to-one, one-to-many [all-to-all]");
    app.add_flag("--per-process", options.per_process, "A row for each process of a group, too");
    app.add_option("--die", options.die)->group("");
    app.add_option("--die-closing", options.die_closing)->group("");
}

void take_group(GroupOptions& options, const GroupTexts& texts) {
    const bool more = !texts.rendezvous.empty() || !texts.pattern.empty() || options.rank.has_value() ||
                      options.per_process || options.die.has_value() || options.die_closing.has_value();
    if (options.world == 0) {
        if (more) {
            throw UsageError(
                "--rendezvous, --rank, --pattern and --per-process are a group's: say with --world how many "
                "processes it has");
        }
        return;
    }
    if (!texts.rendezvous.empty()) options.rendezvous = parse_rendezvous(texts.rendezvous);
    if (!texts.pattern.empty()) {
        options.pattern = choose<GroupPattern>("--pattern", texts.pattern,
                                               {{"pairwise", GroupPattern::pairwise},
                                                {"all-to-all", GroupPattern::all_to_all},
                                                {"many-to-one", GroupPattern::many_to_one},
                                                {"one-to-many", GroupPattern::one_to_many}});
    }
    if (options.rank && !options.rendezvous)
        throw UsageError("--rank needs --rendezvous; without it all processes are forked here");
    if (options.rank && *options.rank >= options.world) {
        throw UsageError("--rank " + std::to_string(*options.rank) + ": a group of --world " +
                         std::to_string(options.world) + " has the ranks 0 to " +
                         std::to_string(options.world - 1));
    }
    if (options.pattern == GroupPattern::pairwise && options.world % 2 != 0)
        throw UsageError("--pattern pairwise: --world must be even");
}

}  // namespace railyard::bench
