#include "group/group_report.h"

#include <algorithm>
#include <cstdio>

#include "common/spoken.h"
#include "failure.h"
#include "size_list.h"

namespace railyard::bench {

namespace {

double bytes_of(const Point& point) {
    return static_cast<double>(point.layout.size) * point.layout.batch;
}

void print_rates(const Point& point, std::uint64_t transfers, double rate, const Histogram& latency) {
    std::printf(
        " %9s %8s %10.2f %9.4f %9.1f %9.1f %9.1f", short_count(static_cast<double>(transfers)).c_str(),
        short_count(bytes_of(point) * static_cast<double>(transfers)).c_str(), rate * bytes_of(point) / 1e6,
        rate / 1e6, us(latency, 0.50), us(latency, 0.99), us(latency, 0.999));
}

}  // namespace

nlohmann::json to_message(const ProcessResult& result) {
    auto latency = nlohmann::json::array();
    result.latency.each_bucket([&](std::size_t bucket, std::uint64_t count) {
        latency.push_back({bucket, count});
    });
    return {{"transfers", result.transfers}, {"seconds", result.seconds}, {"latency", latency}};
}

ProcessResult process_result(const nlohmann::json& message, unsigned rank) {
    ProcessResult result;
    result.rank = rank;
    result.transfers = message.at("transfers").get<std::uint64_t>();
    result.seconds = message.at("seconds").get<double>();
    for (const nlohmann::json& entry : message.at("latency")) {
        if (!result.latency.add_bucket(entry.at(0).get<std::size_t>(), entry.at(1).get<std::uint64_t>()))
            throw Failure("rank " + std::to_string(rank) + " sent a histogram of another railyard-bench");
    }
    return result;
}

Measurement GroupPointResult::all() const {
    Measurement sum;
    for (const ProcessResult& process : processes) {
        sum.transfers += process.transfers;
        sum.seconds = std::max(sum.seconds, process.seconds);
        sum.latency.merge(process.latency);
    }
    if (sum.seconds > 0) sum.transfers_per_s = static_cast<double>(sum.transfers) / sum.seconds;
    sum.mb_per_s = sum.transfers_per_s * bytes_of(point) / 1e6;
    return sum;
}

nlohmann::json to_json(const GroupPointResult& result, const Options& options, const Opened& opened) {
    PointResult all;
    all.point = result.point;
    all.main = result.all();
    all.checked = result.checked;
    all.wrong = result.wrong;
    nlohmann::json json = to_json(all, options, opened);
    json["world"] = options.group.world;
    json["pattern"] = to_string(options.group.pattern);
    json["processes"] = nlohmann::json::array();
    for (const ProcessResult& process : result.processes) {
        const double rate = process.transfers_per_s();
        nlohmann::json row = {{"rank", process.rank},
                              {"iterations", process.transfers},
                              {"seconds", process.seconds},
                              {"mb_per_s", rate * bytes_of(result.point) / 1e6},
                              {"ops_per_s", rate * result.point.layout.batch}};
        add_latency(row, "", process.latency);
        json["processes"].push_back(row);
    }
    return json;
}

GroupReport::GroupReport(const Options& options, std::vector<std::string> members)
    : options_(options),
      members_(std::move(members)),
      provider_(fabric_choice(options.params).provider),
      json_(options.json) {
    json_.keep(document());
}

void GroupReport::set_opened(const Opened& opened) {
    opened_ = opened;
    if (!opened.provider.empty()) provider_ = opened.provider;
    json_.keep(document());
}

void GroupReport::print_heading(const Point& point) {
    std::string heading = options_.plugin;
    if (provider_ != "auto") heading += ", " + spoken_provider(provider_);
    heading +=
        std::string(", ") + to_string(point.op) + ", " + to_string(options_.group.pattern) + " of " +
        std::to_string(options_.group.world) + " processes" + rails_text(opened_) + ", notifications " +
        (point.notify ? "on" : "off") + ", progress thread " + (options_.progress_thread ? "on" : "off") +
        (options_.uses_gpu() ? ", " + options_.mem.text() + " and " + options_.target_mem.text() : "") +
        (options_.check ? "" : ", NOT CHECKED");
    if (heading == last_heading_) return;
    std::printf("%s# %s\n", last_heading_.empty() ? "" : "\n", heading.c_str());
    last_heading_ = heading;
    std::printf("%8s %6s %6s %7s %9s %8s %10s %9s %9s %9s %9s %10s %10s\n", "bytes", "batch", "window",
                "rank", "#iters", "total", "MB/sec", "Mxfers/s", "p50 us", "p99 us", "p99.9 us", "slowest",
                "fastest");
}

void GroupReport::print_row(const GroupPointResult& result) const {
    const Layout& layout = result.point.layout;
    const auto print_begin = [&](const std::string& rank) {
        std::printf("%8s %6u %6u %7s", format_size(layout.size).c_str(), layout.batch, layout.window,
                    rank.c_str());
    };
    double slowest = 0, fastest = 0;
    for (const ProcessResult& process : result.processes) {
        const double rate = process.transfers_per_s() * bytes_of(result.point) / 1e6;
        slowest = &process == &result.processes.front() ? rate : std::min(slowest, rate);
        fastest = std::max(fastest, rate);
        if (!options_.group.per_process) continue;
        print_begin(std::to_string(process.rank));
        print_rates(result.point, process.transfers, process.transfers_per_s(), process.latency);
        std::printf("\n");
    }
    const Measurement all = result.all();
    print_begin("all");
    print_rates(result.point, all.transfers, all.transfers_per_s, all.latency);
    std::printf(" %10.2f %10.2f%s\n", slowest, fastest, result.wrong.empty() ? "" : "  WRONG");
    std::fflush(stdout);
}

void GroupReport::add(GroupPointResult result) {
    if (!options_.json_to_stdout()) {
        print_heading(result.point);
        print_row(result);
    }
    tell_wrong(result.point, result.wrong);
    rows_.push_back(to_json(result, options_, opened_));
    json_.keep(document());
}

nlohmann::json GroupReport::document() const {
    nlohmann::json document = {{"version", 1}, {"host", host_json(options_, provider_)}, {"results", rows_}};
    document["group"] = {
        {"world", options_.group.world},
        {"pattern", to_string(options_.group.pattern)},
        {"rendezvous", options_.group.rendezvous ? options_.group.rendezvous->text() : "forked"},
        {"members", members_}};
    return document;
}

void GroupReport::finish(const std::string& error) {
    nlohmann::json document = this->document();
    if (!error.empty()) document["error"] = error;
    json_.write(document);
}

}  // namespace railyard::bench
