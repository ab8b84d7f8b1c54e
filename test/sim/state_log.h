// What the log says of peers.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "engine/peer_report.h"
#include "log_lines.h"

namespace railyard::test {

/// The log from its making on, at level info; one at a time.
class StateLog {
  public:
    /// Each change of the instance's state, as in "ready, was unknown", in order.
    [[nodiscard]] static std::vector<std::string> changes_of(const PeerReport& peer) {
        char instance[64];
        std::snprintf(instance, sizeof(instance), " %s: instance %016llx: ", peer.agent.c_str(),
                      static_cast<unsigned long long>(peer.nonce));
        std::vector<std::string> changes;
        for (const std::string& line : LogLines::all()) {
            const std::size_t at = line.find(instance);
            if (at != std::string::npos) changes.push_back(line.substr(at + std::string(instance).size()));
        }
        return changes;
    }

  private:
    LogLines lines_{log::Level::info};
};

}  // namespace railyard::test
