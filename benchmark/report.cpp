// The table, the progress bar and the JSON document.
#include "report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/spoken.h"
#include "host_facts.h"
#include "median.h"
#include "raw_fabric.h"
#include "size_list.h"

namespace railyard::bench {

namespace {

/// "vram of GPU 0 and dram, stream attached": the initiator's memory, then the target's.
std::string gpu_text(const Options& options) {
    std::string text = options.mem.text() + " and " + options.target_mem.text() + ", stream ";
    text += to_string(options.stream);
    if (options.stream == StreamMode::attached && !options.mem.vram)
        text += " of GPU " + std::to_string(options.mem.gpu);
    return text;
}

}  // namespace

std::optional<double> PointResult::ratio() const {
    if (!raw || main.slice_rates.empty() || main.slice_rates.size() != raw->slice_rates.size() ||
        *std::min_element(raw->slice_rates.begin(), raw->slice_rates.end()) <= 0)
        return std::nullopt;
    return median_ratio(main.slice_rates, raw->slice_rates);
}

nlohmann::json to_json(const PointResult& result, const Options& options, const Opened& opened) {
    const Layout& layout = result.point.layout;
    nlohmann::json json = {{"op", to_string(result.point.op)},
                           {"size", layout.size},
                           {"batch", layout.batch},
                           {"window", layout.window},
                           {"rails", nullptr},
                           {"local_rail", fabric_choice(options.params).local_rail},
                           {"notify", result.point.notify},
                           {"pt", options.progress_thread},
                           {"mem", options.mem.kind()},
                           {"target_mem", options.target_mem.kind()},
                           {"stream", to_string(options.stream)},
                           {"gpu", nullptr},
                           {"target_gpu", nullptr},
                           {"iterations", result.main.transfers},
                           {"seconds", result.main.seconds},
                           {"mb_per_s", result.main.mb_per_s},
                           {"ops_per_s", result.main.transfers_per_s * layout.batch},
                           {"raw_mb_per_s", nullptr},
                           {"ratio_raw", nullptr},
                           {"checked", result.checked}};
    if (opened.rails != 0) json["rails"] = opened.rails;
    if (options.mem.vram || options.stream == StreamMode::attached) json["gpu"] = options.mem.gpu;
    if (options.target_mem.vram) json["target_gpu"] = options.target_mem.gpu;
    add_latency(json, "", result.main.latency);
    if (result.raw) {
        json["raw_mb_per_s"] = result.raw->mb_per_s;
        json["raw_ops_per_s"] = result.raw->transfers_per_s * layout.batch;
        add_latency(json, "raw_", result.raw->latency);
    }
    if (auto ratio = result.ratio()) json["ratio_raw"] = *ratio;
    if (options.post_time) add_latency(json, "post_", result.main.post);
    if (!result.wrong.empty()) json["wrong"] = result.wrong;
    return json;
}

void tell_wrong(const Point& point, const std::string& wrong) {
    if (wrong.empty()) return;
    std::fprintf(stderr, "railyard-bench: WRONG: %s: %s\n", describe(point).c_str(), wrong.c_str());
}

nlohmann::json host_json(const Options& options, const std::string& provider) {
    nlohmann::json json = host_facts();
    json["libfabric"] = libfabric_version();
    json["plugin"] = options.raw_only ? "" : options.plugin;
    json["provider"] = provider;
    json["params"] = nlohmann::json::object();
    for (const auto& [name, value] : options.params)
        json["params"][name] = is_secret(name) && !value.empty() ? "(set)" : value;
    json["window"] = options.window;
    json["mode"] = options.is_group() ? "group" : options.role == Role::both ? "forked" : "two hosts";
    json["seed"] = options.seed;
    return json;
}

Report::Report(const Options& options, std::size_t points)
    : options_(options), points_(points), json_(options.json) {
    provider_ = fabric_choice(options.params).provider;
    json_.keep(document());
}

void Report::set_opened(const Opened& opened) {
    opened_ = opened;
    if (!opened.provider.empty()) provider_ = opened.provider;
    json_.keep(document());
}

void Report::progress(const Point& point) {
    if (options_.json_to_stdout() || isatty(STDERR_FILENO) == 0) return;
    constexpr std::size_t width = 30;
    std::size_t filled = points_ == 0 ? 0 : width * point.index / points_;
    std::fprintf(stderr, "\r\033[K[%-*s] %u/%zu %s", static_cast<int>(width),
                 std::string(filled, '#').c_str(), point.index + 1, points_, describe(point).c_str());
    std::fflush(stderr);
    progress_shown_ = true;
}

void Report::clear_progress() {
    if (progress_shown_) std::fputs("\r\033[K", stderr);
    progress_shown_ = false;
}

void Report::print_heading(const Point& point) {
    const FabricChoice choice = fabric_choice(options_.params);
    std::string heading = options_.raw_only ? "plain libfabric loop" : options_.plugin;
    if (provider_ != "auto") heading += ", " + spoken_provider(provider_);
    heading +=
        std::string(", ") + to_string(point.op) + rails_text(opened_) +
        (choice.local_rail ? " and the local rail" : "") + ", notifications " +
        (point.notify ? "on" : "off") + ", progress thread " + (options_.progress_thread ? "on" : "off") +
        (options_.uses_gpu() ? ", " + gpu_text(options_) : "") + (options_.check ? "" : ", NOT CHECKED");
    if (heading == last_heading_) return;
    std::printf("%s# %s\n", last_heading_.empty() ? "" : "\n", heading.c_str());
    last_heading_ = heading;
    std::printf("%8s %6s %6s %9s %8s %10s %10s %9s %9s %9s %9s", "bytes", "batch", "window", "#iters",
                "total", "MB/sec", "usec/xfer", "Mxfers/s", "p50 us", "p99 us", "p99.9 us");
    if (options_.post_time) std::printf(" %12s %12s", "post p50 us", "post p99 us");
    if (options_.raw) std::printf(" %10s %7s", "raw MB/s", "ratio");
    std::printf("\n");
}

void Report::print_row(const PointResult& result) {
    const Layout& layout = result.point.layout;
    const Measurement& main = result.main;
    double bytes = static_cast<double>(layout.size) * layout.batch * static_cast<double>(main.transfers);
    double rate = main.transfers_per_s;
    std::printf("%8s %6u %6u %9s %8s %10.2f %10.2f %9.4f %9.1f %9.1f %9.1f", format_size(layout.size).c_str(),
                layout.batch, layout.window, short_count(static_cast<double>(main.transfers)).c_str(),
                short_count(bytes).c_str(), main.mb_per_s, rate > 0 ? 1e6 / rate : 0, rate / 1e6,
                us(main.latency, 0.50), us(main.latency, 0.99), us(main.latency, 0.999));
    if (options_.post_time) std::printf(" %12.1f %12.1f", us(main.post, 0.50), us(main.post, 0.99));
    if (result.raw) std::printf(" %10.2f %7.3f", result.raw->mb_per_s, result.ratio().value_or(0));
    std::printf("%s\n", result.wrong.empty() ? "" : "  WRONG");
    std::fflush(stdout);
}

void Report::add(PointResult result) {
    clear_progress();
    const PointResult& added = results_.emplace_back(std::move(result));
    json_.keep(document());
    if (!options_.json_to_stdout()) {
        print_heading(added.point);
        print_row(added);
    }
    tell_wrong(added.point, added.wrong);
}

void Report::add_idle(const IdleResult& idle) {
    idle_ = idle;
    if (options_.json_to_stdout()) return;
    std::printf("# %s, %s, idle for %.1f s, progress thread %s\n", options_.plugin.c_str(),
                spoken_provider(provider_).c_str(), idle.seconds, options_.progress_thread ? "on" : "off");
    std::printf("initiator: %.3f %% of a core\n   target: %.3f %% of a core\n", idle.initiator_percent,
                idle.target_percent);
}

nlohmann::json Report::document() const {
    nlohmann::json document = {
        {"version", 1}, {"host", host_json(options_, provider_)}, {"results", nlohmann::json::array()}};
    for (const PointResult& result : results_)
        document["results"].push_back(to_json(result, options_, opened_));
    if (idle_) {
        document["idle"] = {{"seconds", idle_->seconds},
                            {"initiator_cpu_percent", idle_->initiator_percent},
                            {"target_cpu_percent", idle_->target_percent}};
    }
    return document;
}

void Report::finish(const std::string& error) {
    clear_progress();
    failed_ = !error.empty();
    if (failed_) std::fprintf(stderr, "railyard-bench: %s\n", error.c_str());
    if (options_.json.empty()) return;
    nlohmann::json document = this->document();
    if (!error.empty()) document["error"] = error;
    json_.write(document);
}

bool Report::all_right() const noexcept {
    if (failed_) return false;
    if (options_.idle_seconds > 0) return idle_.has_value();
    if (results_.size() != points_) return false;
    for (const PointResult& result : results_) {
        if (!result.wrong.empty() || (options_.check && !result.checked)) return false;
    }
    return true;
}

}  // namespace railyard::bench
