#include "group/rendezvous.h"

#include <unistd.h>

#include "control.h"
#include "group/etcd_rendezvous.h"
#include "group/socket_rendezvous.h"

namespace railyard::bench {

namespace {

constexpr std::size_t most_named = 8;

}  // namespace

std::unique_ptr<Rendezvous> meet(const GroupOptions& options, std::chrono::milliseconds timeout) {
    if (options.rendezvous->kind == RendezvousAddress::Kind::etcd) return meet_at_etcd(options, timeout);
    return meet_at_socket(options, timeout);
}

std::string own_name() {
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    return std::string("host ") + (host[0] != '\0' ? host : "?") + ", process " + std::to_string(getpid());
}

std::string missing_text(const std::vector<unsigned>& ranks, unsigned world, const std::string& what,
                         std::chrono::milliseconds limit) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size() && i < most_named; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (ranks.size() > most_named) text += " and " + std::to_string(ranks.size() - most_named) + " more";
    return text + " of " + std::to_string(world) + (ranks.size() == 1 ? " has" : " have") + " not " + what +
           " within " + seconds_text(limit) + "; --timeout sets the limit";
}

std::string gone_text(unsigned rank, const std::vector<std::string>& members) {
    const std::string who = rank < members.size() && !members[rank].empty() ? " (" + members[rank] + ")" : "";
    return "rank " + std::to_string(rank) + who + " has gone";
}

}  // namespace railyard::bench
