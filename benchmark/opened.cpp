#include "opened.h"

#include "common/spoken.h"
#include "engine/metadata.h"
#include "host/peer_blob.h"

namespace railyard::bench {

Opened opened_by(std::string_view agent_metadata) {
    const host::PeerDescription agent = host::decode(agent_metadata);
    if (agent.plugin != "RAILYARD") return {};
    const ConnectionInfo info = decode_connection(agent.connection_info);
    return {info.provider, static_cast<unsigned>(info.rails.size())};
}

std::string rails_text(const Opened& opened) {
    if (opened.rails == 0) return "";
    return ", " + counted(opened.rails, "rail");
}

}  // namespace railyard::bench
