#include "tools/live_view.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/status.h"
#include "tools/table.h"

namespace railyard::tools {
namespace {

/// Past that an engine that anybody drives has written again.
constexpr std::uint64_t stale_ms = 5000;

std::uint64_t age_of(const LiveReport& report, std::uint64_t now_ms) {
    return now_ms > report.written_ms ? now_ms - report.written_ms : 0;
}

std::string seconds_text(std::uint64_t milliseconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64 " s", milliseconds / 1000,
                  milliseconds % 1000 / 100);
    return text;
}

/// In one line of a table.
std::string cell(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::string engine_line(const LiveFile& file, std::uint64_t now_ms) {
    const LiveReport& report = file.report;
    const std::uint64_t age = age_of(report, now_ms);
    std::string line = cell(report.agent) + ": instance " + instance_text(report.nonce) + ", process " +
                       std::to_string(report.pid) + ", " + std::to_string(report.rails.size()) +
                       " rails over " + report.provider + ", " + std::to_string(report.peers.size()) +
                       " peers, Railyard " + report.version + ", " + seconds_text(age) + " ago\n";
    if (age > stale_ms)
        line += "Note: " + file.path + " is old: the process has been killed, or nobody drives its engine\n";
    return line;
}

}  // namespace

LiveFile read_live_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw Error(Status::not_found, "cannot read \"" + path + "\": " + std::strerror(errno) +
                                           "; is there an engine whose setting stats_file names it?");
    }
    std::ostringstream text;
    text << file.rdbuf();
    try {
        return {path, parse_live_report(text.str())};
    } catch (const Error& error) {
        throw Error(Status::mismatch, "\"" + path + "\": " + error.what() +
                                          "; --live reads what the setting stats_file has an engine write");
    }
}

std::string live_text(const std::vector<LiveFile>& files, std::uint64_t now_ms) {
    std::string text;
    Table rails({"agent", "rail", "load", "senders replaced"});
    Table peers({"agent", "peer", "instance", "state", "paths", "failed"});
    for (const LiveFile& file : files) {
        const std::string agent = cell(file.report.agent);
        text += engine_line(file, now_ms);
        for (const RailReport& rail : file.report.rails)
            rails.add(
                {agent, cell(rail.name), std::to_string(rail.load), std::to_string(rail.senders_replaced)});
        for (const PeerReport& peer : file.report.peers) {
            peers.add({agent, cell(peer.agent), instance_text(peer.nonce), to_string(peer.state),
                       std::to_string(peer.paths), std::to_string(peer.failed)});
        }
    }
    return text + "\nRails\n" + rails.text() + "\nPeers\n" + peers.text();
}

std::string live_json(const std::vector<LiveFile>& files, std::uint64_t now_ms) {
    using Json = nlohmann::ordered_json;
    Json engines = Json::array();
    for (const LiveFile& file : files) {
        const LiveReport& report = file.report;
        Json rails = Json::array(), peers = Json::array();
        for (const RailReport& rail : report.rails)
            rails.push_back(
                {{"name", rail.name}, {"load", rail.load}, {"senders_replaced", rail.senders_replaced}});
        for (const PeerReport& peer : report.peers) {
            peers.push_back({{"peer", peer.agent},
                             {"instance", instance_text(peer.nonce)},
                             {"state", to_string(peer.state)},
                             {"paths", peer.paths},
                             {"failed", peer.failed}});
        }
        engines.push_back({{"file", file.path},
                           {"agent", report.agent},
                           {"instance", instance_text(report.nonce)},
                           {"version", report.version},
                           {"provider", report.provider},
                           {"pid", report.pid},
                           {"age_ms", age_of(report, now_ms)},
                           {"rails", rails},
                           {"peers", peers}});
    }
    return Json{{"engines", engines}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace railyard::tools
