// flow-bench: grains over the flow API against a plain libfabric loop of writes with immediate data, in turns
// and in one run. Prints one JSON document.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench_options.h"
#include "common/output.h"
#include "failure.h"
#include "forked_side.h"
#include "histogram.h"
#include "host_facts.h"
#include "median.h"
#include "sides.h"

namespace railyard::bench {
namespace {

constexpr std::chrono::milliseconds answer_limit{30'000};

/// What the targets' processes are to do, in memory that all share: so that nothing else moves while one of
/// the two is measured.
enum class Phase : int { idle, ours, raw, ours_echo, raw_echo, end };
struct Shared {
    std::atomic<Phase> phase{Phase::idle};
    std::atomic<unsigned> idle{0};          ///< targets that have come to rest
    std::atomic<std::uint64_t> arrived{0};  ///< grains, at all of them
};

/// Both ways of sending a grain, once there is room for it.
template <class Transfer, class Progress>
void transfer(Transfer transfer, Progress progress) {
    const auto step = [&] {
        if (transfer()) return true;
        progress();
        return false;
    };
    until(step, "there is no room for a grain");
}

std::unique_ptr<OurSide> our_side(const FlowBenchOptions& options, const GrainMemory& memory,
                                  unsigned initiators) {
    if (options.notified) return std::make_unique<NotifiedSide>(options, memory);
    return std::make_unique<FlowSide>(options, memory, initiators);
}

/// A target's process, until the end.
class TargetProcess {
  public:
    TargetProcess(const FlowBenchOptions& options, Shared& shared, Control control)
        : options_(options),
          shared_(shared),
          control_(std::move(control)),
          memory_(options),
          ours_(our_side(options, memory_, options.latency)) {
        if (options.raw) raw_ = std::make_unique<RawSide>(options, memory_, 1);
    }

    void run() {
        Message hello{{"info", ours_->info()}};
        if (raw_) hello["raw"] = to_json(raw_->local(0));
        control_.send(hello);
        const Message peer = control_.receive(answer_limit);
        if (raw_) raw_->connect(0, raw_remote(peer.at("raw")));
        if (options_.latency) ours_->add(0, peer.at("info").get<std::string>());
        control_.send({{"ready", true}});
        for (Phase phase; (phase = shared_.phase.load()) != Phase::end;) {
            if (phase == Phase::idle) {
                rest();
            } else {
                serve(phase);
            }
        }
    }

  private:
    void rest() {
        shared_.idle.fetch_add(1);
        while (shared_.phase.load() == Phase::idle)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

    void serve(Phase phase) {
        const bool ours = phase == Phase::ours || phase == Phase::ours_echo;
        std::uint64_t taken = 0;
        const auto look = [&] {
            const std::size_t now = ours ? static_cast<std::size_t>(ours_->take()) : raw_->progress();
            taken += now;
            return now;
        };
        while (shared_.phase.load(std::memory_order_relaxed) == phase) {
            if (look() == 0) {
                if (!options_.latency) sched_yield();
            } else if (phase == Phase::ours_echo) {
                transfer([&] { return ours_->transfer(0); }, [&] { ours_->progress(0); });
            } else if (phase == Phase::raw_echo) {
                transfer([&] { return raw_->transfer(0); }, [&] { raw_->progress(); });
            }
        }
        // What has been written is there: the writer has seen it end.
        const auto end = Clock::now() + std::chrono::milliseconds(2);
        do {
            look();
        } while (Clock::now() < end);
        // Those that were announced again before we came to look count, too: the plain loop does not look.
        if (ours) {
            taken = ours_->announced() - counted_;
            counted_ += taken;
        }
        shared_.arrived.fetch_add(taken);
    }

    const FlowBenchOptions& options_;
    Shared& shared_;
    Control control_;
    GrainMemory memory_;
    std::unique_ptr<OurSide> ours_;
    std::unique_ptr<RawSide> raw_;
    std::uint64_t counted_ = 0;  ///< of ours_->announced()
};

/// Who sends and measures. With several targets, the first initiator has the first of them alone, the second
/// one has all.
class Sender {
  public:
    Sender(const FlowBenchOptions& options, Shared& shared, std::vector<Control> controls)
        : options_(options),
          shared_(shared),
          controls_(std::move(controls)),
          memory_(options),
          ours_(our_side(options, memory_, options.targets > 1 ? 2 : 1)) {
        if (options.raw) raw_ = std::make_unique<RawSide>(options, memory_, options.targets);
    }

    nlohmann::json run() {
        connect();
        for (unsigned slice = 0; slice < options_.slices; ++slice) {
            const bool raw_first = slice % 2 != 0;
            if (raw_first) measure_raw();
            measure_ours();
            if (!raw_first) measure_raw();
        }
        begin(Phase::end);
        return report();
    }

  private:
    void connect() {
        for (unsigned i = 0; i < controls_.size(); ++i) {
            const Message hello = controls_[i].receive(answer_limit);
            const auto info = hello.at("info").get<std::string>();
            if (i == 0) ours_->add(0, info);
            if (options_.targets > 1) ours_->add(1, info);
            if (raw_) raw_->connect(i, raw_remote(hello.at("raw")));
            Message answer{{"info", ours_->info()}};
            if (raw_) answer["raw"] = to_json(raw_->local(i));
            controls_[i].send(answer);
            static_cast<void>(controls_[i].receive(answer_limit));
        }
        come_to_rest();
    }

    void begin(Phase phase) {
        shared_.idle.store(0);
        shared_.phase.store(phase);
    }
    void come_to_rest() {
        if (shared_.phase.load() != Phase::idle) begin(Phase::idle);
        const auto over = [&] {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            return shared_.idle.load() == options_.targets;
        };
        until(over, "a target does not answer");
    }
    /// Bytes a second of `sent` grains, each of which `targets` must have got.
    double end_of(Clock::time_point begun, std::uint64_t sent, unsigned targets) {
        const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
        come_to_rest();
        const std::uint64_t arrived = shared_.arrived.exchange(0);
        if (arrived != sent * targets) {
            throw Failure("the targets have got " + std::to_string(arrived) + " grains of " +
                          std::to_string(sent * targets));
        }
        return static_cast<double>(sent * targets) * static_cast<double>(options_.flow.grain_size) / seconds;
    }
    [[nodiscard]] Clock::time_point slice_end(double parts) const {
        return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(options_.seconds / options_.slices / parts));
    }

    double our_rate(unsigned initiator, unsigned targets) {
        begin(Phase::ours);
        const auto begun = Clock::now(), end = slice_end(targets > 1 ? 3 : 2);
        std::uint64_t sent = 0;
        while (Clock::now() < end) {
            if (ours_->transfer(initiator)) {
                ++sent;
            } else {
                ours_->progress(initiator);
            }
        }
        ours_->settle(initiator);
        return end_of(begun, sent, targets);
    }

    double raw_rate() {
        begin(Phase::raw);
        const auto begun = Clock::now(), end = slice_end(options_.targets > 1 ? 3 : 2);
        std::uint64_t sent = 0;
        while (Clock::now() < end) {
            sent += raw_->transfer_to_all();
            raw_->progress();
        }
        raw_->settle();
        return end_of(begun, sent, 1);
    }

    template <class Transfer, class Progress, class Take>
    double ping(Phase phase, Transfer send, Progress progress, Take take) {
        begin(phase);
        Histogram times;
        std::uint64_t sent = 0;
        for (const auto end = slice_end(2); Clock::now() < end; ++sent) {
            const auto begun = Clock::now();
            transfer(send, progress);
            until(take, "no echo has come");
            times.add(static_cast<std::uint64_t>((Clock::now() - begun).count() / 2));
        }
        end_of(Clock::now(), sent, 1);
        return times.percentile(0.5) / 1000;
    }

    void measure_ours() {
        if (options_.latency) {
            our_results_.push_back(ping(
                Phase::ours_echo, [&] { return ours_->transfer(0); }, [&] { ours_->progress(0); },
                [&] { return ours_->take(); }));
            return;
        }
        const bool many = options_.targets > 1;
        if (many) one_results_.push_back(our_rate(0, 1));
        our_results_.push_back(our_rate(many ? 1 : 0, options_.targets));
    }

    void measure_raw() {
        if (!raw_) return;
        if (!options_.latency) return raw_results_.push_back(raw_rate());
        std::size_t arrived = 0;
        raw_results_.push_back(ping(
            Phase::raw_echo, [&] { return raw_->transfer(0); }, [&] { arrived += raw_->progress(); },
            [&] {
                if (arrived == 0) arrived = raw_->progress();
                return arrived != 0 && arrived-- != 0;
            }));
    }

    nlohmann::json report() {
        const char* const unit = options_.latency ? "_p50_us" : "_mb_per_s";
        const double scale = options_.latency ? 1 : 1e-6;
        nlohmann::json json{
            {"version", 1}, {"targets", options_.targets}, {"size", options_.flow.grain_size}};
        json["host"] = host_facts();
        const double ours = median(our_results_);
        json[(options_.notified ? "notified" : "flow") + std::string(unit)] = ours * scale;
        if (raw_) {
            json[std::string("raw") + unit] = median(raw_results_) * scale;
            json["ratio_raw"] = median_ratio(our_results_, raw_results_);
        }
        if (!one_results_.empty()) {
            const double one = median(one_results_);
            json[std::string("flow_one") + unit] = one * scale;
            json["ratio_one"] = median_ratio(our_results_, one_results_, options_.targets);
        }
        return json;
    }

    const FlowBenchOptions& options_;
    Shared& shared_;
    std::vector<Control> controls_;
    GrainMemory memory_;
    std::unique_ptr<OurSide> ours_;
    std::unique_ptr<RawSide> raw_;
    std::vector<double> our_results_, one_results_, raw_results_;
};

/// Without the destructors of who forked it: they would end the other targets.
[[noreturn]] void be_target(const FlowBenchOptions& options, Shared& shared, Control control) {
    try {
        for (const auto& [name, value] : options.target_environment)
            setenv(name.c_str(), value.c_str(), 1);
        TargetProcess(options, shared, std::move(control)).run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flow-bench: target: %s\n", error.what());
        _exit(1);
    }
    _exit(0);
}

int run(const FlowBenchOptions& options) {
    void* const mapped =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw Failure("cannot map a page");
    auto& shared = *new (mapped) Shared;
    std::vector<Control> controls;
    std::deque<ForkedSide> targets;
    for (unsigned i = 0; i < options.targets; ++i) {
        ForkedSide& target = targets.emplace_back("a target");  // before any thread, before libfabric
        if (target.child.is_child()) be_target(options, shared, std::move(target.control));
        controls.push_back(std::move(target.control));
    }
    const nlohmann::json report = Sender(options, shared, std::move(controls)).run();
    for (ForkedSide& target : targets) {
        if (!target.child.join(answer_limit, true)) return 1;
    }
    std::puts(report.dump().c_str());
    return 0;
}

}  // namespace
}  // namespace railyard::bench

int main(int argc, char** argv) {
    railyard::guard_standard_files();
    CLI::App app("Grains over the flow API against a plain libfabric loop, in turns.");
    try {
        return railyard::with_output_written("flow-bench",
                                             railyard::bench::run(railyard::bench::parse(argc, argv, app)));
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flow-bench: %s\n", error.what());
        return 1;
    }
}
