// Set-up, verification and timed slices of each point.
#include "runner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "agent_side.h"
#include "common/clock.h"
#include "failure.h"
#include "median.h"
#include "raw_fabric.h"
#include "side_memory.h"
#include "slice.h"
#include "target.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

/// Slices of one side, added up.
class Collector {
  public:
    void add(const SliceResult& slice) {
        measurement_.transfers += slice.transfers;
        measurement_.seconds += slice.seconds;
        measurement_.latency.merge(slice.latency);
        measurement_.post.merge(slice.post);
        if (slice.seconds > 0)
            measurement_.slice_rates.push_back(static_cast<double>(slice.transfers) / slice.seconds);
    }

    Measurement finish(const Layout& layout) {
        if (!measurement_.slice_rates.empty())
            measurement_.transfers_per_s = median(measurement_.slice_rates);
        double bytes = static_cast<double>(layout.size) * layout.batch;
        measurement_.mb_per_s = measurement_.transfers_per_s * bytes / 1e6;
        return std::move(measurement_);
    }

  private:
    Measurement measurement_;
};

class Initiator {
  public:
    Initiator(const Options& options, std::uint64_t memory, Control control, Report& report)
        : options_(options), control_(std::move(control)), report_(report), length_(memory) {}

    void open() {
        arm_watchdog(2 * options_.timeout + 60s, "opening the plugin and its peer");
        // At once from any target, so that another program on its port is found out before the long waits.
        if (options_.role == Role::initiator) control_->call({{"do", "hello"}}, options_.timeout);
        memory_.emplace(options_.mem, length_);
        const Message there = call(open_request(options_, length_));
        Message join = {
            {"do", "join"}, {"base", memory_->range().address}, {"device", memory_->range().device}};
        if (options_.uses_plugin()) {
            ours_ = std::make_unique<AgentSide>(options_, "initiator", memory_->range());
            report_.set_opened(ours_->opened());
            const auto& metadata = there.at("metadata").get_binary();
            ours_->join({reinterpret_cast<const char*>(metadata.data()), metadata.size()},
                        {there.at("base").get<std::uint64_t>(), length_, options_.target_mem.device()});
            const std::string own = ours_->metadata();
            join["metadata"] = Message::binary({own.begin(), own.end()});
        }
        if (options_.uses_raw()) {
            raw_ = std::make_unique<RawFabric>(fabric_choice(options_.params), options_.progress_thread,
                                               memory_->host_bytes());
            raw_->connect(there.at("raw"));
            join["raw"] = raw_->address();
            if (!ours_) report_.set_opened({raw_->provider(), static_cast<unsigned>(raw_->rail_count())});
        }
        call(join);
        if (ours_) {
            serve("ours", Point{}, false);
            ours_->connect();
            stop({});
        }
    }

    void measure(const Point& point) {
        report_.progress(point);
        PointResult result;
        result.point = point;
        if (raw_) raw_->prepare(point);
        if (ours_) prepare_ours(point);
        if (options_.check) verify_both(result, "");
        time_slices(result);
        // What was timed has moved bytes that were there before.
        if (options_.check && result.wrong.empty()) verify_both(result, " after the timed part");
        result.checked = options_.check && result.wrong.empty();
        if (ours_) ours_->release();
        report_.add(std::move(result));
    }

    void idle() {
        Point point;
        point.layout = {4096, 1, 1};
        PointResult result;
        result.point = point;
        prepare_ours(point);
        verify(*ours_, "ours", result);
        if (!result.wrong.empty()) throw Failure("wrong data before the idle time: " + result.wrong);
        const auto span = std::chrono::duration<double>(options_.idle_seconds);
        arm_watchdog(std::chrono::duration_cast<std::chrono::milliseconds>(span) + 10s, "the idle check");
        std::this_thread::sleep_for(100ms);
        auto there = call({{"do", "usage"}}).at("cpu_ns").get<std::uint64_t>();
        std::uint64_t here = process_cpu_ns();
        std::uint64_t begin = now_ns();
        std::this_thread::sleep_for(span);
        auto elapsed = static_cast<double>(now_ns() - begin);
        here = process_cpu_ns() - here;
        there = call({{"do", "usage"}}).at("cpu_ns").get<std::uint64_t>() - there;
        report_.add_idle({elapsed / 1e9, 100 * static_cast<double>(here) / elapsed,
                          100 * static_cast<double>(there) / elapsed});
        ours_->release();
    }

    void close() {
        arm_watchdog(options_.timeout + 5s, "closing the plugin");
        ours_.reset();
        raw_.reset();
        call({{"do", "end"}});
        disarm_watchdog();
    }

    /// Lets the target go, which ends by itself.
    void hang_up() { control_.reset(); }

  private:
    Message call(const Message& message) { return control_->call(message, 2 * options_.timeout + 30s); }

    Message about(const char* request, const Point& point) const {
        return {{"do", request},
                {"point", point.index},
                {"size", point.layout.size},
                {"batch", point.layout.batch},
                {"window", point.layout.window}};
    }

    /// Until stop(), the target moves this side of it.
    void serve(const char* side, const Point& point, bool timed, bool check_on_arrival = false) {
        Message message = about("serve", point);
        message["side"] = side;
        message["timed"] = timed;
        message["check_on_arrival"] = check_on_arrival;
        call(message);
    }

    /// Returns what the target found wrong with the notifications, "" for nothing.
    std::string stop(const std::vector<std::uint64_t>& posts) {
        return call({{"do", "stop"}, {"posts", posts}}).value("wrong", "");
    }

    void prepare_ours(const Point& point) {
        arm_watchdog(2 * options_.timeout + 60s, "preparing the transfers");
        serve("ours", point, false);
        ours_->prepare(point);
        stop({});
    }

    /// One phase of either side: the target serves it while the loop runs here.
    template <class Driver>
    SliceResult run(Driver& driver, const char* side, SliceLimits limits, PointResult& result) {
        const Point& point = result.point;
        limits.window = point.layout.window;
        limits.timeout = options_.timeout;
        const bool notify = point.notify && std::string_view(side) == "ours";
        arm_watchdog(2 * options_.timeout + 60s, "asking the target to serve");
        serve(side, point, limits.timed, !limits.timed && notify && point.op == host::Op::write);
        SliceResult slice =
            SliceLoop<Driver>(driver, limits, std::string(side) + " " + describe(point)).run();
        arm_watchdog(2 * options_.timeout + 60s, "waiting for the target's account");
        std::string wrong = stop(notify ? slice.posts : std::vector<std::uint64_t>{});
        if (result.wrong.empty()) result.wrong = wrong;
        return slice;
    }

    void verify_both(PointResult& result, const char* when) {
        if (ours_) verify(*ours_, "ours", result, when);
        if (raw_) verify(*raw_, "raw", result, when);
    }

    /// An untimed pass: each block once, with contents of its own, over a destination that holds their
    /// inverse.
    template <class Driver>
    void verify(Driver& driver, const char* side, PointResult& result, const char* when = "") {
        const Point& point = result.point;
        const bool write = point.op == host::Op::write;
        arm_watchdog(2 * options_.timeout + 60s, "filling the memory");
        seed_ = options_.seed + ++passes_;
        Message fill = about("fill", point);
        fill["seed"] = seed_;
        fill["as"] = write ? "sink" : "source";
        call(fill);
        if (write) {
            memory_->fill_source(point.layout, seed_);
        } else {
            memory_->scrub_destination(point.layout, seed_);
        }
        SliceLimits limits;
        limits.iterations = point.layout.window;
        run(driver, side, limits, result);
        check_arrived(std::string(side) + when, result);
    }

    /// Compares the destination, wherever it is.
    void check_arrived(const std::string& side, PointResult& result) {
        std::string wrong;
        if (result.point.op == host::Op::write) {
            wrong = call(about("check", result.point)).value("wrong", "");
        } else {
            wrong = memory_->check_destination(result.point.layout, seed_, options_.corrupt).value_or("");
        }
        if (!wrong.empty() && result.wrong.empty()) result.wrong = side + ": " + wrong;
    }

    /// The timed part: slices of ours and of the plain loop in turns, then a look at the memory once more.
    void time_slices(PointResult& result) {
        const unsigned slices = options_.slice_count();
        SliceLimits limits;
        limits.iterations = options_.iterations == 0 ? 0 : (options_.iterations + slices - 1) / slices;
        limits.seconds = options_.iterations == 0 ? options_.seconds / slices : 0;
        limits.time_posts = options_.post_time;
        limits.timed = true;
        Collector ours, raw;
        for (unsigned i = 0; i < slices; ++i) {
            if (ours_) ours.add(run(*ours_, "ours", limits, result));
            if (raw_) raw.add(run(*raw_, "raw", limits, result));
        }
        if (options_.check && result.wrong.empty()) check_arrived("after the timed part", result);
        result.main = ours_ ? ours.finish(result.point.layout) : raw.finish(result.point.layout);
        if (ours_ && raw_) result.raw = raw.finish(result.point.layout);
    }

    const Options& options_;
    std::optional<Control> control_;
    Report& report_;
    const std::uint64_t length_;
    std::optional<SideMemory> memory_;
    std::unique_ptr<AgentSide> ours_;
    std::unique_ptr<RawFabric> raw_;
    std::uint64_t passes_ = 0;
    std::uint64_t seed_ = 0;
};

}  // namespace

void run_initiator(const Options& options, const std::vector<Point>& points, Control control,
                   Report& report) {
    Initiator initiator(options, std::max<std::uint64_t>(memory_needed(points), 1 << 16), std::move(control),
                        report);
    std::string error;
    try {
        initiator.open();
        if (options.idle_seconds > 0) {
            initiator.idle();
        } else {
            for (const Point& point : points) {
                initiator.measure(point);
                // Nobody reads the rows any more, and no document has them.
                if (options.json.empty() && std::ferror(stdout) != 0) break;
            }
        }
        initiator.close();
    } catch (const std::exception& failure) {
        error = failure.what();
    }
    arm_watchdog(options.timeout + 5s, "reporting");
    report.finish(error);
    // What is in flight may keep the plugin from closing at once.
    if (!error.empty()) initiator.hang_up();
    arm_watchdog(options.timeout + 30s, "closing the plugin");
}

}  // namespace railyard::bench
