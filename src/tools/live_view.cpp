#include "tools/live_view.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/descriptor.h"
#include "common/spoken.h"
#include "common/status.h"
#include "common/unix_address.h"
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

/// In the largest unit that it has one of.
std::string bytes_text(std::uint64_t bytes) {
    static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < std::size(units); ++unit)
        value /= 1000;
    char text[32];
    std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

/// Three digits, and never an exponent.
std::string us_text(double ns) {
    char text[32];
    std::snprintf(text, sizeof(text), ns < 999'500 ? "%.3g" : "%.0f", ns / 1000);
    return text;
}

/// Of both directions together, half of the transfers and 99 of a hundred.
std::string latency_text(const PeerTrafficReport& traffic) {
    LatencyCounts all = traffic.write_latency;
    for (std::size_t i = 0; i < LatencyCounts::buckets; ++i)
        all.counts[i] += traffic.read_latency.counts[i];
    if (all.count() == 0) return "-";
    return us_text(all.percentile_ns(0.5)) + ", " + us_text(all.percentile_ns(0.99)) + " us";
}

void add_cells(std::vector<std::string>& row, std::initializer_list<std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers)
        row.push_back(std::to_string(number));
}

std::vector<std::string> rail_row(const std::string& agent, const RailReport& rail) {
    std::vector<std::string> row{agent, cell(rail.name), std::to_string(rail.load), rail.crawls ? "yes" : "-",
                                 std::to_string(rail.senders_replaced)};
    if (!rail.traffic) return row.insert(row.end(), 7, "-"), row;
    const RailTrafficReport& traffic = *rail.traffic;
    row.push_back(bytes_text(traffic.bytes_written));
    row.push_back(bytes_text(traffic.bytes_read));
    add_cells(row, {traffic.writes + traffic.reads, traffic.refusals + traffic.control_refusals,
                    traffic.repeats + traffic.control_repeats, traffic.failovers,
                    traffic.disconnected + traffic.failed + traffic.control_errors});
    return row;
}

std::vector<std::string> peer_row(const std::string& agent, const PeerReport& peer) {
    std::vector<std::string> row{agent, cell(peer.agent), instance_text(peer.nonce), to_string(peer.state),
                                 peer.on_host ? "host" : "fabric"};
    add_cells(row, {peer.paths, peer.failed});
    if (!peer.traffic) return row.insert(row.end(), 7, "-"), row;
    const PeerTrafficReport& traffic = *peer.traffic;
    row.push_back(bytes_text(traffic.bytes_written));
    row.push_back(bytes_text(traffic.bytes_read));
    add_cells(row, {traffic.transfers_written + traffic.transfers_read,
                    traffic.disconnected + traffic.canceled + traffic.failed, traffic.failovers,
                    traffic.notifications_sent + traffic.notifications_received});
    row.push_back(latency_text(traffic));
    return row;
}

using Json = nlohmann::ordered_json;

Json latency_json(const LatencyCounts& latency) {
    return {{"measured", latency.count()},
            {"p50_ns", std::llround(latency.percentile_ns(0.5))},
            {"p99_ns", std::llround(latency.percentile_ns(0.99))},
            {"sum_ns", latency.sum_ns}};
}

Json rail_json(const RailReport& rail) {
    Json json{{"name", rail.name},
              {"load", rail.load},
              {"crawls", rail.crawls != 0},
              {"senders_replaced", rail.senders_replaced}};
    if (!rail.traffic) return json;
    const RailTrafficReport& traffic = *rail.traffic;
    json["write"] = {{"operations", traffic.writes}, {"bytes", traffic.bytes_written}};
    json["read"] = {{"operations", traffic.reads}, {"bytes", traffic.bytes_read}};
    json["control"] = {{"fragments_sent", traffic.fragments_sent},
                       {"bytes_sent", traffic.control_bytes_sent},
                       {"fragments_received", traffic.fragments_received},
                       {"bytes_received", traffic.control_bytes_received},
                       {"refusals", traffic.control_refusals},
                       {"repeats", traffic.control_repeats},
                       {"errors", traffic.control_errors}};
    json["refusals"] = traffic.refusals;
    json["repeats"] = traffic.repeats;
    json["failovers"] = traffic.failovers;
    json["errors"] = {{"remote_disconnect", traffic.disconnected}, {"other", traffic.failed}};
    json["registered_bytes"] = traffic.registered_bytes;
    return json;
}

Json peer_json(const PeerReport& peer) {
    Json json{{"peer", peer.agent},
              {"instance", instance_text(peer.nonce)},
              {"state", to_string(peer.state)},
              {"on_host", peer.on_host != 0},
              {"paths", peer.paths},
              {"failed", peer.failed}};
    if (!peer.traffic) return json;
    const PeerTrafficReport& traffic = *peer.traffic;
    json["write"] = {{"transfers", traffic.transfers_written},
                     {"bytes", traffic.bytes_written},
                     {"latency", latency_json(traffic.write_latency)}};
    json["read"] = {{"transfers", traffic.transfers_read},
                    {"bytes", traffic.bytes_read},
                    {"latency", latency_json(traffic.read_latency)}};
    json["errors"] = {{"remote_disconnect", traffic.disconnected},
                      {"canceled", traffic.canceled},
                      {"other", traffic.failed}};
    json["notifications_sent"] = traffic.notifications_sent;
    json["notifications_received"] = traffic.notifications_received;
    json["path_failures"] = traffic.path_failures;
    json["failovers"] = traffic.failovers;
    json["repeats"] = traffic.repeats;
    return json;
}

std::string engine_line(const LiveFile& file, std::uint64_t now_ms) {
    const LiveReport& report = file.report;
    const std::uint64_t age = age_of(report, now_ms);
    std::string line =
        cell(report.agent) + ": instance " + instance_text(report.nonce) + ", process " +
        std::to_string(report.pid) + ", " + counted(report.rails.size(), "rail") + " over " +
        spoken_provider(report.provider) + ", " + counted(report.peers.size(), "peer") + ", Railyard " +
        report.version + ", " +
        (file.interval_ms ? "in " + seconds_text(file.interval_ms) : seconds_text(age) + " ago") + "\n";
    if (age > stale_ms)
        line += "Note: " + file.path + " is old: the process has been killed, or nobody drives its engine\n";
    return line;
}

LiveFile parsed(const std::string& path, const std::string& text, const char* setting) {
    try {
        return {path, parse_live_report(text)};
    } catch (const Error& error) {
        throw Error(Status::mismatch, "\"" + path + "\": " + error.what() +
                                          "; --live reads what the setting " + setting +
                                          " has an engine tell");
    }
}

[[noreturn]] void refuse_socket(const std::string& path, const std::string& reason) {
    throw Error(Status::not_found, "cannot ask \"" + path + "\": " + reason +
                                       "; is there an engine whose setting stats_socket names it?");
}

/// A path that is too long for an address goes by way of its directory, which `connect` is given open.
void connect_to(int fd, const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const bool fits = path.size() < sizeof(sockaddr_un::sun_path);
    const bool detour = !fits && !UnixAddress::is_abstract(path) && slash != std::string::npos;
    const Descriptor directory(
        detour ? open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1);
    if (detour && directory.get() < 0) refuse_socket(path, std::strerror(errno));
    std::string name = path;
    if (directory.get() >= 0) name = "/proc/self/fd/" + std::to_string(directory.get()) + path.substr(slash);
    try {
        const UnixAddress address(name);
        if (connect(fd, address.get(), address.length()) != 0) refuse_socket(path, std::strerror(errno));
    } catch (const Error& error) {
        if (error.status() != Status::invalid_param) throw;
        refuse_socket(path, error.what());
    }
}

/// Where nobody drives the engine, nothing comes: that is waited for `answer_limit` at most.
std::string read_socket(const std::string& path) {
    constexpr std::chrono::seconds answer_limit{5};
    const Descriptor opened(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int fd = opened.get();
    const timeval limit{answer_limit.count(), 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    connect_to(fd, path);
    shutdown(fd, SHUT_WR);
    std::string text;
    char bytes[65536];
    const auto end = std::chrono::steady_clock::now() + 2 * answer_limit;
    for (ssize_t count = 1; count != 0;) {
        count = recv(fd, bytes, sizeof(bytes), 0);
        if (count < 0 || std::chrono::steady_clock::now() > end)
            refuse_socket(path,
                          "it does not answer, so nobody drives that engine, or its process is stopped");
        text.append(bytes, static_cast<std::size_t>(count));
    }
    if (text.empty()) refuse_socket(path, "it says nothing: an engine answers its own user and root alone");
    return text;
}

}  // namespace

LiveFile read_live_file(const std::string& path) {
    struct stat there {};
    const bool is_socket =
        UnixAddress::is_abstract(path) || (stat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode));
    if (is_socket) return parsed(path, read_socket(path), "stats_socket");
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw Error(Status::not_found, "cannot read \"" + path + "\": " + std::strerror(errno) +
                                           "; is there an engine whose setting stats_file names it?");
    }
    std::ostringstream text;
    text << file.rdbuf();
    return parsed(path, text.str(), "stats_file");
}

std::string live_text(const std::vector<LiveFile>& files, std::uint64_t now_ms) {
    std::string text;
    const bool are_rates = !files.empty() && files.front().interval_ms != 0;
    const auto counted = [&](const char* name) { return std::string(name) + (are_rates ? "/s" : ""); };
    Table rails({"agent", "rail", "load", "crawls", counted("senders replaced"), counted("written"),
                 counted("read"), counted("operations"), counted("refusals"), counted("repeats"),
                 counted("failovers"), counted("errors")});
    Table peers({"agent", "peer", "instance", "state", "over", "paths", "failed", counted("written"),
                 counted("read"), counted("transfers"), counted("errors"), counted("failovers"),
                 counted("notifications"), "p50, p99"});
    for (const LiveFile& file : files) {
        const std::string agent = cell(file.report.agent);
        text += engine_line(file, now_ms);
        for (const RailReport& rail : file.report.rails)
            rails.add(rail_row(agent, rail));
        for (const PeerReport& peer : file.report.peers)
            peers.add(peer_row(agent, peer));
    }
    return text + "\nRails\n" + rails.text() + "\nPeers\n" + peers.text();
}

std::string live_json(const std::vector<LiveFile>& files, std::uint64_t now_ms) {
    Json engines = Json::array();
    for (const LiveFile& file : files) {
        const LiveReport& report = file.report;
        Json rails = Json::array(), peers = Json::array();
        for (const RailReport& rail : report.rails)
            rails.push_back(rail_json(rail));
        for (const PeerReport& peer : report.peers)
            peers.push_back(peer_json(peer));
        engines.push_back({{"file", file.path},
                           {"agent", report.agent},
                           {"instance", instance_text(report.nonce)},
                           {"version", report.version},
                           {"provider", report.provider},
                           {"pid", report.pid},
                           {"age_ms", age_of(report, now_ms)},
                           {"interval_ms", file.interval_ms ? Json(file.interval_ms) : Json()},
                           {"rails", rails},
                           {"peers", peers}});
    }
    return Json{{"engines", engines}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace railyard::tools
