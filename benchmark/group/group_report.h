// The results of a group of processes as a table and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "options.h"
#include "report.h"
#include "report_parts.h"
#include "workload.h"

namespace railyard::bench {

/// What one initiator measured.
struct ProcessResult {
    unsigned rank = 0;
    std::uint64_t transfers = 0;
    double seconds = 0;
    Histogram latency;

    [[nodiscard]] double transfers_per_s() const noexcept {
        return seconds > 0 ? static_cast<double>(transfers) / seconds : 0;
    }
};

[[nodiscard]] nlohmann::json to_message(const ProcessResult& result);
/// Throws Failure for what to_message does not make.
[[nodiscard]] ProcessResult process_result(const nlohmann::json& message, unsigned rank);

struct GroupPointResult {
    Point point;
    std::vector<ProcessResult> processes;  ///< of the initiators
    bool checked = false;
    std::string wrong;

    /// All of them as one: the sum of what they moved, over the time that the slowest took.
    [[nodiscard]] Measurement all() const;
};

/// The keys of one element of "results": those of two sides, and "processes".
[[nodiscard]] nlohmann::json to_json(const GroupPointResult& result, const Options& options,
                                     const Opened& opened = {});

/// Rank 0's. One thread.
class GroupReport {
  public:
    /// `members`: what each rank is. Throws Failure.
    GroupReport(const Options& options, std::vector<std::string> members);

    /// Rank 0's engine.
    void set_opened(const Opened& opened);
    void add(GroupPointResult result);
    void finish(const std::string& error);

  private:
    void print_heading(const Point& point);
    void print_row(const GroupPointResult& result) const;
    [[nodiscard]] nlohmann::json document() const;

    const Options& options_;
    const std::vector<std::string> members_;
    std::string provider_;  ///< as asked for until the engine is open
    Opened opened_;
    JsonFile json_;
    std::vector<nlohmann::json> rows_;
    std::string last_heading_;
};

}  // namespace railyard::bench
