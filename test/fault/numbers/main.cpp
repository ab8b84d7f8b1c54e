// Measures one of the figures of docs/reliability.md and prints it as JSON; benchmark/reliability.py runs it.
#include <rdma/fabric.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "benchmark/host_facts.h"
#include "measure.h"

namespace railyard::test {
namespace {

using Measure = json (*)(const Plan&);

const std::map<std::string, Measure> measures{
    {"rail-death", rail_death},     {"link-return", link_return}, {"peer-death", peer_death},
    {"peer-restart", peer_restart}, {"neighbour", neighbour},     {"plain-writes", plain_writes},
    {"messages", many_messages},    {"cycles", cycles},
};

int run(int count, char** words) {
    Plan plan;
    std::string measure;
    CLI::App app{
        "Measures one figure of docs/reliability.md: see benchmark/reliability.py, which sets the stage for "
        "it."};
    app.add_option("measure", measure, "What to measure")->required()->check(CLI::IsMember(measures));
    app.add_option("--provider", plan.fabric.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", plan.fabric.rails, "Number of rails of each side")->capture_default_str();
    app.add_option("--how", plan.how, "Which way, where there are several");
    app.add_option("--rounds", plan.rounds, "Times to measure it, or threads")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--count", plan.count, "Of what is counted")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    CLI11_PARSE(app, count, words);
    json result = measures.at(measure)(plan);
    result["host"] = bench::host_facts();
    result["host"]["libfabric"] =
        std::to_string(FI_MAJOR(fi_version())) + "." + std::to_string(FI_MINOR(fi_version()));
    std::printf("%s\n", result.dump().c_str());
    return 0;
}

}  // namespace
}  // namespace railyard::test

int main(int count, char** words) {
    try {
        return railyard::test::run(count, words);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fault-numbers: %s\n", error.what());
        return 1;
    }
}
