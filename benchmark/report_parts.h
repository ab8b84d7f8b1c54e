// What the reports of two sides and of many have in common.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "histogram.h"

namespace railyard::bench {

/// "1.5g" in the manner of fabtests: three digits and a suffix.
[[nodiscard]] std::string short_count(double value);
/// A percentile in microseconds.
[[nodiscard]] double us(const Histogram& histogram, double fraction);
/// The keys PREFIXp50_us, PREFIXp99_us and PREFIXp999_us.
void add_latency(nlohmann::json& json, const std::string& prefix, const Histogram& histogram);

/// What --json names.
class JsonFile {
  public:
    /// "-": standard output; "": none, and write() does nothing. Opened at once, so that a name that cannot
    /// be written fails before the run. Throws Failure.
    explicit JsonFile(const std::string& name);
    ~JsonFile();
    JsonFile(const JsonFile&) = delete;
    JsonFile& operator=(const JsonFile&) = delete;

    void write(const nlohmann::json& document);
    /// What there is to say by now: where a call does not come back the watchdog writes it, with its error.
    void keep(const nlohmann::json& document);

  private:
    const std::string name_;
    std::FILE* file_ = nullptr;
};

}  // namespace railyard::bench
