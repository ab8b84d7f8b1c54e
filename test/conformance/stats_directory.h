// A directory for what engines tell of themselves.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "engine/live_report.h"
#include "engine_pair.h"
#include "unix_client.h"

namespace railyard::test {

/// Goes with the object.
class StatsDirectory {
  public:
    StatsDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "stats-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~StatsDirectory() { std::filesystem::remove_all(path_); }
    StatsDirectory(const StatsDirectory&) = delete;
    StatsDirectory& operator=(const StatsDirectory&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    /// For stats_file; one file an agent.
    [[nodiscard]] std::string pattern() const { return (path_ / "%a.prom").string(); }
    [[nodiscard]] LiveReport read(const std::string& agent) const {
        std::ifstream file(path_ / (agent + ".prom"));
        std::stringstream text;
        text << file.rdbuf();
        return parse_live_report(text.str());
    }
    /// Each agent answers at a socket of its own, at once; its file is written once a second.
    [[nodiscard]] ParamMap params() const { return {{"stats_socket", socket("%a")}}; }
    [[nodiscard]] std::string socket(const std::string& agent) const {
        return (path_ / (agent + ".sock")).string();
    }
    /// What `agent`, which has params(), tells from now on, at the earliest, while `drive` is called again
    /// and again. Throws std::runtime_error where that takes more than 10 s.
    template <class Drive>
    LiveReport read_anew(const std::string& agent, Drive drive) const {
        using std::chrono::system_clock, std::chrono::milliseconds;
        const auto start = system_clock::now(), end = start + std::chrono::seconds(10);
        const auto since_1970 = std::chrono::duration_cast<milliseconds>(start.time_since_epoch());
        while (system_clock::now() < end) {
            UnixClient client(socket(agent));
            client.say("\n");
            while (client.hear(), !client.ended() && system_clock::now() < end)
                drive();
            LiveReport report = parse_live_report(client.hear());
            if (report.written_ms > static_cast<std::uint64_t>(since_1970.count())) return report;
        }
        throw std::runtime_error(agent + " does not tell its statistics");
    }
    LiveReport read_anew(const std::string& agent, EnginePair& pair) const {
        return read_anew(agent, [&] {
            if (pair.a) pair.a->progress();
            if (pair.b) pair.b->progress();
        });
    }

  private:
    std::filesystem::path path_;
};

/// The peer's traffic; that of nobody where it has none.
inline PeerTrafficReport traffic_with(const LiveReport& report, const std::string& agent) {
    for (const PeerReport& peer : report.peers) {
        if (peer.agent == agent && peer.traffic) return *peer.traffic;
    }
    return {};
}

/// Of all rails.
inline std::uint64_t sum(const LiveReport& report, std::uint64_t RailTrafficReport::*figure) {
    std::uint64_t all = 0;
    for (const RailReport& rail : report.rails)
        all += rail.traffic ? (*rail.traffic).*figure : 0;
    return all;
}

}  // namespace railyard::test
