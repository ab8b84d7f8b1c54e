// Results as a table for people, as JSON for programs, and the progress bar.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "histogram.h"
#include "opened.h"
#include "options.h"
#include "report_parts.h"
#include "workload.h"

namespace railyard::bench {

/// One measured way of moving the data: the plugin's or the plain loop's. Rates are medians over the slices.
struct Measurement {
    std::uint64_t transfers = 0;
    double seconds = 0;
    double mb_per_s = 0;  ///< 10^6 bytes
    double transfers_per_s = 0;
    std::vector<double> slice_rates;  ///< transfers a second, in order
    Histogram latency;                ///< ns, of all slices
    Histogram post;
};

/// One row.
struct PointResult {
    Point point;
    Measurement main;  ///< the plugin's, with --raw-only the plain loop's
    std::optional<Measurement> raw;
    bool checked = false;
    std::string wrong;  ///< what the check found

    /// Of the plugin's rate to the plain loop's: the median over the pairs of slices, where there is one.
    [[nodiscard]] std::optional<double> ratio() const;
};

struct IdleResult {
    double seconds = 0;
    double initiator_percent = 0;  ///< of one core
    double target_percent = 0;
};

/// The keys of one element of "results".
[[nodiscard]] nlohmann::json to_json(const PointResult& result, const Options& options,
                                     const Opened& opened = {});
/// A line on the error output, unless `wrong` is empty.
void tell_wrong(const Point& point, const std::string& wrong);

/// The value of "host": the machine, and what was asked for.
[[nodiscard]] nlohmann::json host_json(const Options& options, const std::string& provider);

/// Writes rows as they come, and the JSON at the end. One thread.
class Report {
  public:
    /// Opens the JSON file, so that a name that cannot be written fails before the run. Throws Failure.
    Report(const Options& options, std::size_t points);

    /// What is measured; with --raw the plugin's engine.
    void set_opened(const Opened& opened);
    /// Shows on a terminal what is being measured.
    void progress(const Point& point);
    void add(PointResult result);
    void add_idle(const IdleResult& idle);
    /// Writes the JSON, and `error`, which is what ended the run early, if anything did.
    void finish(const std::string& error);
    /// Everything that was asked for has been measured and, where checked, was right.
    [[nodiscard]] bool all_right() const noexcept;

  private:
    void print_heading(const Point& point);
    void print_row(const PointResult& result);
    void clear_progress();
    [[nodiscard]] nlohmann::json document() const;

    const Options& options_;
    const std::size_t points_;
    std::string provider_;  ///< as asked for until something is open
    Opened opened_;
    std::vector<PointResult> results_;
    std::optional<IdleResult> idle_;
    JsonFile json_;
    std::string last_heading_;
    bool progress_shown_ = false;
    bool failed_ = false;
};

}  // namespace railyard::bench
