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
    [[nodiscard]] std::string text(const std::string& agent) const {
        std::ifstream file(path_ / (agent + ".prom"));
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }
    [[nodiscard]] LiveReport read(const std::string& agent) const { return parse_live_report(text(agent)); }
    /// What `agent` writes from now on, at the earliest, while `drive` is called again and again. Throws
    /// std::runtime_error where that takes more than 10 s.
    template <class Drive>
    LiveReport read_anew(const std::string& agent, Drive drive) const {
        using std::chrono::system_clock, std::chrono::milliseconds;
        const auto start = system_clock::now();
        const auto since_1970 = std::chrono::duration_cast<milliseconds>(start.time_since_epoch());
        while (system_clock::now() < start + std::chrono::seconds(10)) {
            drive();
            LiveReport report = read(agent);
            if (report.written_ms > static_cast<std::uint64_t>(since_1970.count())) return report;
        }
        throw std::runtime_error(agent + " does not write its statistics");
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
